"""Settings of the Django project. Values that differ between machines come from console.environment."""

from csp.constants import NONE, SELF
from psycopg.conninfo import make_conninfo

from console.environment import BASE_DIR, Environment, database, patient

ENV = Environment()
VAR_DIR = ENV.var_dir
DEBUG = False
PRODUCTION = ENV.production

SECRET_KEY = ENV.secret_key or ("" if PRODUCTION else "local-only-" + "k" * 50)
MASTER_KEY = ENV.master_key or ("" if PRODUCTION else "local-only-master-key")
ALLOWED_HOSTS = [host for host in ENV.allowed_hosts.split(",") if host]
CSRF_TRUSTED_ORIGINS = [origin for origin in ENV.trusted_origins.split(",") if origin]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "pgtrigger",
    "csp",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "accounts",
    "runs",
    "receipts",
    "checkpoints",
    "approvals",
    "runtime",
    "console",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "console.compression.CompressTexts",
    "servestatic.middleware.ServeStaticMiddleware",
    "csp.middleware.CSPMiddleware",
    "console.outage.AnswerOutages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": database(ENV.database_url, ENV.db_pool)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "sign-in"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = VAR_DIR / "static"
SERVESTATIC_USE_FINDERS = not PRODUCTION

DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
FILE_UPLOAD_HANDLERS = ["console.uploads.FilesAsNamed"]

SESSION_ENGINE = "console.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
if PRODUCTION:
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = ["^healthz$"]  # the load balancer asks without TLS
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 31536000
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "accounts.api.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [
        "console.api.parsing.StrictJSONParser",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "accounts.api.problem_response",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Signalbox",
    "VERSION": "1",
    "DESCRIPTION": "Supervise agent runs. A token acts as the person that it belongs to; refusals are problem+json.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "ENUM_NAME_OVERRIDES": {
        "RunStatus": "runs.states.RunStatus",
        "ControlStatus": "runs.states.ControlStatus",
        "CallStatus": "receipts.states.CallStatus",
        "PublicationStatus": "receipts.states.PublicationStatus",
        "Verdict": "receipts.states.Verdict",
        "WaitStatus": "approvals.states.WaitStatus",
        "DecisionVerdict": "approvals.states.DecisionVerdict",
        "CallVerdict": "approvals.states.OF_A_CALL",
        "WaitKind": "approvals.states.WaitKind",
        "AnswerKind": "approvals.states.AnswerKind",
        "BulkAct": "runs.states.BulkAct",
        "ObligationStatus": "checkpoints.states.ObligationStatus",
        "SaveStatus": "checkpoints.states.SaveStatus",
        "ModelCallStatus": "receipts.states.ModelCallStatus",
        "WakeupStatus": "runs.states.WakeupStatus",
        "ControlKind": "runs.states.ControlKind",
        "ScopeStatus": "runs.states.ScopeStatus",
        "Closing": "receipts.states.Closing",
        "WordClosing": "receipts.states.WordClosing",
        "PolicyOutcome": "approvals.states.PolicyOutcome",
        "NoticeStatus": "accounts.states.NoticeStatus",
        "NoticeKind": "accounts.states.NoticeKind",
        "Subject": "accounts.states.Subject",
        "EndpointKind": "accounts.states.EndpointKind",
    },
}

CELERY_BROKER_URL = ENV.broker_url
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CONSUMER = "console.consumer:LastingConsumer"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker outlives its broker, however long that is away
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False  # what is on the wire is not broken off for a hint
# A new session for every task would cost more than the task: a cold server process, and nothing prepared.
CELERY_DB_REUSE_MAX = 1000
# Who decides or starts must not wait for a broker that is dead or hangs: a lost hint is sent again by the sweep.
_SEND_ONCE = {"max_retries": 0, "socket_connect_timeout": 2.0, "socket_timeout": 5.0}
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 300, "unacked_restore_throttle": 1, **_SEND_ONCE}
CELERY_BEAT_SCHEDULE = {
    # A queue of its own, with a worker of its own: whoever answers slowly outside keeps no run waiting.
    "notices": {
        "task": "runtime.notices",
        "schedule": ENV.sweep_seconds,
        "options": {"queue": "notices", "expires": max(1.0, ENV.sweep_seconds * 5)},
    },
    "stuck": {
        "task": "runtime.stuck",
        "schedule": max(30.0, ENV.sweep_seconds),
        "options": {"queue": "notices", "expires": 60.0},
    },
    "sweep": {
        "task": "runtime.sweep",
        "schedule": ENV.sweep_seconds,
        "options": {"expires": max(1.0, ENV.sweep_seconds * 5)},
    },
}

ANSWER_SECONDS = ENV.answer_seconds
LIVE_HINTS = True
TRACE = True
# The liveness lock needs sessions of its own: an address past any transaction pooler, or "" to do without it.
_LIVENESS = (ENV.liveness_database_url or ENV.database_url) if ENV.liveness else ""
LIVENESS_DATABASE_URL = make_conninfo(**patient(_LIVENESS)) if _LIVENESS else ""
LEASE_TTL_SECONDS = ENV.lease_ttl_seconds
HEARTBEAT_SECONDS = ENV.heartbeat_seconds
SWEEP_SECONDS = ENV.sweep_seconds
MAX_TAKEOVERS = ENV.max_takeovers
ENVIRONMENT_NAME = ENV.environment or ("production" if ENV.production else "development")
WAIT_DEADLINE_SECONDS = ENV.wait_deadline_seconds
WAIT_VALIDITY_SECONDS = ENV.wait_validity_seconds
STEP_UP_SECONDS = 300  # how long a password counts for a decision that asks for one (S06)
RETRY_BASE_SECONDS = ENV.retry_base_seconds
RETRY_HOLD_SECONDS = ENV.retry_hold_seconds
RETRY_MAX_SECONDS = ENV.retry_max_seconds
MAX_ATTEMPTS = ENV.max_attempts
# Which bodies of checkpoints `manage.py retain` keeps: the newest of each run, and one of each day.
RETAIN_LATEST = ENV.retain_latest
RETAIN_DAILY = ENV.retain_daily
FAULT_DIR = ENV.fault_dir

AGENTS = [
    "runtime.agents.fund_comparison.FundComparison",
    "runtime.agents.fund_comparison.AskingComparison",
    "runtime.agents.evidence_search.EvidenceSearch",
]
OUTSIDE_URL = ENV.outside_url
MODEL_GATEWAY = ENV.model_gateway
MODEL_BASE_URL = ENV.model_base_url
MODEL_NAME = ENV.model_name
MODEL_API_KEY_REF = ENV.model_api_key_ref
MODEL_PRICES = ENV.model_prices
# What tools may name in their arguments, and where each secret stands: env:NAME or file:PATH.
TOOL_SECRETS = ENV.tool_secrets

# What people are told of outside the pages. Mail goes through the server that whoever runs this installation names.
PUBLIC_URL = ENV.public_url.rstrip("/")
NOTICE_NETWORKS = ENV.notice_networks
NOTICE_SECONDS = ENV.notice_seconds
NOTICE_ATTEMPTS = ENV.notice_attempts
RETAIN_NOTICES_DAYS = ENV.retain_notices_days
NOTICE_STUCK_SECONDS = ENV.notice_stuck_seconds
NOTICE_DIGEST_SECONDS = ENV.notice_digest_seconds
EMAIL_HOST, EMAIL_PORT = ENV.mail_host, ENV.mail_port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = ENV.mail_user, ENV.mail_password
EMAIL_USE_TLS, EMAIL_TIMEOUT = ENV.mail_tls, ENV.notice_seconds
DEFAULT_FROM_EMAIL = ENV.mail_from

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": ENV.log_level},
    # One line for every hint, sweep and request would bury what matters.
    "loggers": {
        name: {"level": "WARNING"}
        for name in ("celery.worker.strategy", "celery.app.trace", "celery.beat", "httpx", "fontTools", "fpdf")
    },
}

"""A password hasher for tests: quick, and read by processes that run with the real settings."""

from django.contrib.auth.hashers import PBKDF2PasswordHasher


class OneRound(PBKDF2PasswordHasher):
    iterations = 1

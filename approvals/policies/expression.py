"""The conditions that a rule may write out: a small part of the language of the `rule-engine` package. Pure Python.

The library parses and evaluates; nothing is compiled to Python. Only what is listed here may be written, so that a
condition takes time in proportion to its length and the arguments: no loops, no patterns, no powers, no built-in names.
Numbers are decimals, so an amount is compared exactly.
"""

import decimal
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

LIMIT = 500  # characters
TOKENS = 120
EXPONENT = 400  # of a number that is written out; a longer one takes its time where a whole number is made of it

NAMES = ("tool", "effect", "agent", "environment", "args")
_ALLOWED = frozenset(
    {
        *("STRING", "FLOAT", "SYMBOL", "TRUE", "FALSE", "NULL"),
        *("LPAREN", "RPAREN", "LBRACKET", "RBRACKET", "COMMA", "ATTR"),
        *("AND", "OR", "NOT", "IN", "EQ", "NE", "GT", "GE", "LT", "LE"),
        *("ADD", "SUB", "MUL", "TDIV"),
    }
)
_ATTRIBUTES = frozenset({"length", "is_empty", "as_lower", "as_upper", "starts_with", "ends_with", "keys", "values"})


# What the library lets through where values of a call are of kinds that it did not foresee.
_OF_ITS_VALUES = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class NotAnExpression(ValueError):
    """The condition can't be used. The message says what is wrong with it, for whoever wrote it."""


class Unanswerable(ValueError):
    """The condition can't be asked of this call: it looks for what the call does not have. The message says what."""


@cache
def _engine() -> Any:
    """The library. It builds the tables of its parser when it is imported, so only a process that meets a condition does."""
    return import_module("rule_engine")


@cache
def _context() -> Any:
    engine, text = _engine(), _engine().DataType.STRING
    context = engine.Context(
        type_resolver={name: text for name in NAMES if name != "args"}
        | {"args": engine.DataType.MAPPING(text, engine.DataType.UNDEFINED)},
        decimal_context=decimal.Context(prec=50),
        mapping_attribute_lookup=False,
        default_timezone="utc",
    )
    context.builtins = engine.builtins.Builtins({})
    return context


@lru_cache(maxsize=4096)
def compiled(text: str) -> Any:
    """A condition, parsed and checked. Raises NotAnExpression."""
    if len(text) > LIMIT:
        raise NotAnExpression(f"{len(text)} characters, at most {LIMIT}")
    try:
        _check_tokens(text)
        rule = _engine().Rule(text, context=_context())
    except _engine().EngineError as error:
        raise NotAnExpression(_told(error)) from error
    except RecursionError as error:
        raise NotAnExpression("it is nested too deeply") from error
    except NotAnExpression:
        raise
    except _OF_ITS_VALUES as error:
        raise NotAnExpression("it puts together what does not go together") from error
    kind = rule.statement.expression.result_type
    if kind not in (_engine().DataType.BOOLEAN, _engine().DataType.UNDEFINED):
        raise NotAnExpression(f"it gives {kind.name.lower()}, and a condition gives true or false")
    return rule


def condition_fault(text: str) -> str:
    """What is wrong with a condition, for whoever wrote it; nothing when it can be used."""
    try:
        compiled(text)
    except NotAnExpression as error:
        return str(error)
    return ""


def holds(text: str, facts: Mapping[str, Any]) -> bool:
    """Whether a checked condition holds of a call. Raises Unanswerable."""
    try:
        answer = compiled(text).evaluate(facts)
    except _engine().EngineError as error:
        raise Unanswerable(_told(error)) from error
    except _OF_ITS_VALUES as error:
        raise Unanswerable(f"{type(error).__name__} in the condition") from error
    if not isinstance(answer, bool):
        raise Unanswerable("the condition gives no true or false")
    return answer


def _check_tokens(text: str) -> None:
    """Refuse what is not listed, before anything is built of it: the library works constants out while it parses."""
    lexer = _engine().Rule.parser._lexer.clone()  # noqa: SLF001  the library gives its tokens under no other name
    lexer.input(text)
    tokens = list(lexer)
    if len(tokens) > TOKENS:
        raise NotAnExpression(f"{len(tokens)} words and signs, at most {TOKENS}")
    for before, token in zip([None, *tokens], tokens, strict=False):
        place = f"at character {token.lexpos + 1}"
        if token.type not in _ALLOWED or str(token.value).startswith("$"):
            raise NotAnExpression(f"{token.value!r} {place} can't be used in a condition")
        if token.type == "FLOAT" and not _is_short(token.value):
            raise NotAnExpression(f"{token.value!r} {place} has an exponent beyond {EXPONENT}")
        if before is not None and before.type == "ATTR" and token.value not in _ATTRIBUTES:
            raise NotAnExpression(
                f"{token.value!r} {place} is none of {', '.join(sorted(_ATTRIBUTES))}; an argument is args['name']"
            )


def _is_short(number: str) -> bool:
    """Whether a number is neither enormous nor minute. What is no decimal the library judges."""
    try:
        return abs(decimal.Decimal(number).adjusted()) <= EXPONENT
    except decimal.InvalidOperation:
        return True


def _told(error: Any) -> str:
    """What the library says, with the name that it does not know and the one that it suggests."""
    engine = _engine()
    if isinstance(error, engine.SymbolResolutionError):
        hint = f"; did you mean {error.suggestion}?" if error.suggestion else ""
        return f"there is no {error.symbol_name!r} here, only {', '.join(NAMES)}{hint}"
    if isinstance(error, engine.errors.LookupError):
        return f"there is no {error.item!r} in what was looked into"
    if isinstance(error, engine.errors.RuleSyntaxError):
        token = error.token
        return f"syntax error at {token.value!r}, character {token.lexpos + 1}" if token else "it ends too early"
    return str(error.message)

"""Reading a fund's holdings disclosure, uploaded as CSV. Pure: bytes in, exact decimals or a typed refusal out."""

from runtime.tools.disclosure.reader import Disclosure, Holding, Line, read
from runtime.tools.disclosure.refusal import DisclosureRefused

__all__ = ["Disclosure", "DisclosureRefused", "Holding", "Line", "read"]

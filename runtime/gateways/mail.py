"""Mail, through the server that whoever runs this installation has named. People choose to whom it goes, never through what."""

import smtplib
from collections.abc import Mapping

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email

from runtime.gateways.addresses import AddressRefused
from runtime.gateways.post import NotTaken


def checked_mailbox(address: str) -> str:
    """The mail address, where mail can be sent and this is one. Raises AddressRefused."""
    if not settings.EMAIL_HOST:
        raise AddressRefused("This installation sends no mail: no mail server is set (SIGNALBOX_MAIL_HOST).")
    try:
        validate_email(address)
    except ValidationError as error:
        raise AddressRefused("This is not a mail address.") from error
    return address


def send_mail(to: str, subject: str, text: str, *, headers: Mapping[str, str]) -> None:
    """Hand one mail to the server. Raises NotTaken."""
    message = EmailMessage(subject, text, to=[to], headers=dict(headers))
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        raise NotTaken("The mail server refused the recipient.", again=False) from error
    except (OSError, smtplib.SMTPException) as error:
        raise NotTaken(f"The mail server did not take it ({type(error).__name__}).", again=True) from error

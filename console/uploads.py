"""What comes with a form: under which name a file is taken, and how big one input of a run may be, whichever door it comes through."""

from tempfile import SpooledTemporaryFile
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http.multipartparser import MultiPartParser, MultiPartParserError

from accounts.errors import Refused

MAX_INPUT_BYTES = 8 * 1024 * 1024


class InputTooBig(Refused):
    """No run was started. Input {name} has more than {limit} bytes, and no more are taken."""

    code = "INPUT_TOO_BIG"
    status = 413


def too_big(name: str, size: int) -> InputTooBig | None:
    """The refusal of an input of this size, or None. Asked before its bytes are read."""
    if size <= MAX_INPUT_BYTES:
        return None
    return InputTooBig({"name": name, "limit": MAX_INPUT_BYTES})


class FilesAsNamed(FileUploadHandler):
    """Takes the files of every form, of pages and API, under the names that they were sent with (FILE_UPLOAD_HANDLERS).

    Django makes a name for a disk of each: folders, what can't be printed and all beyond 255 characters are gone without a word.
    Nothing here is stored under such a name; the services judge it.
    """

    def handle_raw_input(
        self,
        input_data: Any,
        META: Any,  # noqa: N803  Django's name
        content_length: int,
        boundary: str,
        encoding: str | None = None,
    ) -> Any:
        return _AsSent(META, input_data, [_Received(self.request)], encoding).parse()


class UnreadablePart(MultiPartParserError):
    """One part of a form can't be read. Its text says which, and what of it."""


class _AsSent(MultiPartParser):
    _post: Any  # what was read so far, and who takes the files: the base class's own, in no stubs
    _upload_handlers: list[Any]

    def sanitize_file_name(self, file_name: str) -> str:
        return file_name

    def parse(self) -> Any:
        try:
            return super().parse()
        except MultiPartParserError as error:
            raise UnreadablePart(
                f"Part {self._read() + 1} of the form can’t be read{self._after()}: {error}"
            ) from error

    def _read(self) -> int:
        """How many parts came before. The last of them, where it is a file, is not among the files yet."""
        return sum(len(values) for _, values in self._post.lists()) + len(self._files_begun)

    def _after(self) -> str:
        before = [*self._post, *self._files_begun]
        return f" (it comes after {', '.join(name[:100] for name in before[-20:])})" if before else ""

    @property
    def _files_begun(self) -> list[str]:
        return [name for handler in self._upload_handlers for name in handler.begun]


class _Received(FileUploadHandler):
    """Keeps what comes in memory, and on disk without a name from FILE_UPLOAD_MAX_MEMORY_SIZE on."""

    def __init__(self, request: Any) -> None:
        super().__init__(request)
        self.begun: list[str] = []

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self.begun.append(str(self.field_name))
        self.file = SpooledTemporaryFile(max_size=settings.FILE_UPLOAD_MAX_MEMORY_SIZE)  # noqa: SIM115  closed with the request

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.file.write(raw_data)

    def file_complete(self, file_size: int) -> UploadedFile:  # type: ignore[type-arg]  # in the stubs only
        self.file.seek(0)
        return _Given(self.file, self.file_name, self.content_type, file_size, self.charset, self.content_type_extra)

    def upload_interrupted(self) -> None:
        self.file.close()


class _Given(UploadedFile):  # type: ignore[type-arg]  # in the stubs only
    name: str = ""  # a plain one: the setter of the base class cuts

"""The handoff notes of a run, its one resumable head, and the contract it carries."""

from checkpoints.models.contract import Commitment, Intent, Obligation
from checkpoints.models.revision import Checkpoint, Head, Lapse, SaveAttempt, TaskWrite, names_a_revision

__all__ = [
    "Checkpoint",
    "Commitment",
    "Head",
    "Intent",
    "Lapse",
    "Obligation",
    "SaveAttempt",
    "TaskWrite",
    "names_a_revision",
]

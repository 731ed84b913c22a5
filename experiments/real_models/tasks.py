"""All tasks by their names."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.real_models.kinds_of_files import KindsOfFiles
from experiments.real_models.nearest_sentences import NearestSentences
from experiments.real_models.notes_of_a_melody import NotesOfAMelody
from experiments.real_models.speech_in_sound import SpeechInSequences, SpeechInSound
from experiments.real_models.task import Task
from experiments.real_models.text_in_pictures import TextInPictures

TASKS: Mapping[str, type[Task]] = {
    "text_in_pictures": TextInPictures,
    "speech_in_sound": SpeechInSound,
    "speech_in_sequences": SpeechInSequences,
    "kinds_of_files": KindsOfFiles,
    "nearest_sentences": NearestSentences,
    "notes_of_a_melody": NotesOfAMelody,
}

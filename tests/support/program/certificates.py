"""Certificates of an authority of one's own, made on the spot by openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; `certificate` is what those trust who are to believe them."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.crt"

    def make(self) -> Authority:
        """Write its key and its own certificate."""
        self.folder.mkdir(exist_ok=True)
        subject = ("-subj", f"/CN={self.name}", "-addext", "basicConstraints=critical,CA:TRUE")
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", self._key, "-out", self.certificate, "-days", "1", *subject)
        return self

    def sign(self, common_name: str, folder: Path, names: str = "") -> tuple[Path, Path]:
        """The certificate and the key of somebody, in a folder.

        Args:
            names: of a server, such as `DNS:localhost`.
        """
        certificate, key, request = (folder / f"{common_name}.{kind}" for kind in ("crt", "key", "csr"))
        extension = ("-addext", f"subjectAltName={names}") if names else ()
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={common_name}", *extension)
        signer = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-copy_extensions", "copy")
        _openssl("x509", "-req", "-in", request, *signer, "-out", certificate, "-days", "1")
        key.chmod(0o600)
        return certificate, key

    @property
    def _key(self) -> Path:
        return self.folder / f"{self.name}.key"


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=30)

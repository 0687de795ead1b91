"""What the machine code of a kernel takes of a multiprocessor, read from a cubin, which is an ELF file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

#: Of the file header: offset of the section headers; their size, their number, and the one with the names.
_HEADER = struct.Struct("<40xQ10xHHH")
#: Of a section header: name, offset and size.
_SECTION = struct.Struct("<I20xQQ")
_SYMBOL_BYTES = 24
#: Of ``.nv.info``: an entry has 4 bytes, and as many more as its last two bytes say where it begins with this one.
_SIZED = 4
_REGISTERS = 0x2F  # its entry has the number of the kernel's symbol, and its registers


@dataclass
class Usage:
    """Registers of a thread, and static shared memory (bytes) of a block, with what the driver reserves from 9.0 on."""

    registers: int = 0
    static_bytes: int = 0


@dataclass
class _Section:
    """A section of the file; that of shared memory has a size and no bytes."""

    data: bytes
    size: int


def usage(cubin: bytes) -> dict[str, Usage]:
    """What every kernel of a cubin takes, by its mangled name."""
    sections = _sections(cubin)
    found = {name.removeprefix(".text."): Usage() for name in sections if name.startswith(".text.")}
    for kernel, of_kernel in found.items():
        if f".nv.shared.{kernel}" in sections:
            of_kernel.static_bytes = sections[f".nv.shared.{kernel}"].size
    for symbol, registers in _registers(sections[".nv.info"].data):
        (name,) = struct.unpack_from("<I", sections[".symtab"].data, symbol * _SYMBOL_BYTES)
        found[_text(sections[".strtab"].data, name)].registers = registers
    return found


def _sections(cubin: bytes) -> dict[str, _Section]:
    first, size, count, names = _HEADER.unpack_from(cubin)
    headers = [_SECTION.unpack_from(cubin, first + size * section) for section in range(count)]
    texts = cubin[headers[names][1] :]
    return {_text(texts, name): _Section(cubin[at : at + length], length) for name, at, length in headers}


def _registers(info: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(info):
        kind, attribute, length = struct.unpack_from("<BBH", info, at)
        at += 4
        if kind == _SIZED:
            if attribute == _REGISTERS:
                yield struct.unpack_from("<II", info, at)
            at += length


def _text(texts: bytes, at: int) -> str:
    return texts[at : texts.index(b"\0", at)].decode()

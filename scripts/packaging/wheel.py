"""Writes a wheel of a program that is no Python: wheel.py TREE VERSION TAG DIRECTORY

TREE has the program in bin and what goes beside it in share.
"""
import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile


def written(wheel, date, name, content, mode=0o644):
    """Puts a file into the wheel, and returns its line of RECORD."""
    entry = zipfile.ZipInfo(name, date)
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(entry, content)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def main(tree, version, tag, directory):
    tree, root = pathlib.Path(tree), pathlib.Path(__file__).resolve().parents[2]
    name = f"cutrace-{version}"
    wheel_name = pathlib.Path(directory) / f"{name}-{tag}.whl"
    tags = [f"py3-none-{platform}" for platform in tag.split("-")[2].split(".")]
    licences = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.txt"]
    head = ["Metadata-Version: 2.4", "Name: cutrace", f"Version: {version}"]
    head += ["Summary: Records everything a program asks of the CUDA driver, and does it again"]
    head += ["License-Expression: MIT OR Apache-2.0", *(f"License-File: {file}" for file in licences)]
    head += ["Keywords: cuda,gpu,trace,profiler,replay", "Description-Content-Type: text/markdown", "", ""]
    metadata = "\n".join(head) + (root / "README.md").read_text()
    about = ["Wheel-Version: 1.0", "Generator: cutrace", "Root-Is-Purelib: false", *(f"Tag: {tag}" for tag in tags)]

    date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(wheel_name, "w", compresslevel=9) as wheel:
        def put(name, content, mode=0o644):
            return written(wheel, date, name, content, mode)

        # An installer gives what is in scripts its mode.
        record = put(f"{name}.data/scripts/cutrace", (tree / "bin/cutrace").read_bytes(), 0o755)
        for path in sorted(path for path in (tree / "share").rglob("*") if path.is_file()):
            if path.parent.name != "cutrace":
                record += put(f"{name}.data/data/{path.relative_to(tree)}", path.read_bytes())
        for file in licences:
            record += put(f"{name}.dist-info/licenses/{file}", (tree / "share/doc/cutrace" / file).read_bytes())
        record += put(f"{name}.dist-info/METADATA", metadata.encode())
        record += put(f"{name}.dist-info/WHEEL", ("\n".join(about) + "\n").encode())
        put(f"{name}.dist-info/RECORD", (record + f"{name}.dist-info/RECORD,,\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Compares the driver table with the CUDA headers: run by scripts/check-api.

    check_api.py TABLE VERSION=INCLUDE...

TABLE is what the example `table` of the crate `trace` prints, INCLUDE the folder of the headers of a release, the newest
first. Prototypes, structs and enumerations are read from the preprocessed headers; sizes, offsets and values come from a C
program made of them.

The table must be what the newest header says. An older one may lack what came later; where it says something else, EARLIER
has the reason.
"""

import copy
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Differences that are meant, each with its reason. An entry that no longer applies is a difference itself.

NOT_EXPORTED = {
    "cuEventCreateFromEGLSync": "not exported by libcuda 580",
}
WITHOUT_PROTOTYPE = {
    "cuEGLApiInit": "in no public header",
    "cuMemGetAttribute": "in no public header",
    "cuMemGetAttribute_v2": "in no public header",
}
PLAIN_WORD_ENUMS = {
    "CUeglFrameType": "EGL is recorded as plain words",
    "CUeglResourceLocationFlags": "EGL is recorded as plain words",
    "CUeglColorFormat": "EGL is recorded as plain words",
}
# Structs without a name in the header: the member that they are, and from which byte on. (One called
# `CUparent_member` needs no entry.)
NESTED = {
    "ClusterDim": ("CUlaunchAttributeValue", "clusterDim", 0),
    "ProgrammaticEvent": ("CUlaunchAttributeValue", "programmaticEvent", 0),
    "LaunchCompletionEvent": ("CUlaunchAttributeValue", "launchCompletionEvent", 0),
    "DeviceUpdatableKernelNode": ("CUlaunchAttributeValue", "deviceUpdatableKernelNode", 0),
    "StreamWaitValue32": ("CUstreamBatchMemOpParams", "waitValue", 8),
    "StreamWaitValue64": ("CUstreamBatchMemOpParams", "waitValue", 8),
    "StreamWriteValue32": ("CUstreamBatchMemOpParams", "writeValue", 8),
    "StreamWriteValue64": ("CUstreamBatchMemOpParams", "writeValue", 8),
    "StreamAtomicReduction": ("CUstreamBatchMemOpParams", "atomicReduction", 8),
}
OWN_FIELDS = {
    "CUstreamBatchMemOpParams.op": "what the members of the union have behind `operation`",
    "StreamWaitValue32.reserved": "the unused half of the 64-bit value",
    "StreamWriteValue32.reserved": "the unused half of the 64-bit value",
    "CUdevResource.nextResource": "the address of another, not followed: before 13.5 these bytes were padding",
    "StreamWaitValue64.value": "value64",
    "StreamWriteValue64.value": "value64",
}
OPAQUE = {
    "CUctxCigParam.sharedData": "a Direct3D queue, or a blob whose size only the graphics driver knows",
    "CUstreamCigParam.streamSharedData": "a command list of Direct3D or a command buffer of Vulkan",
    "CUdevResource.nextResource": "before 13.5 these bytes were padding, which may be anything",
    "CUDA_MEMCPY3D.reserved0": "must be null",
    "CUDA_MEMCPY3D.reserved1": "must be null",
    "CUDA_MEMCPY3D_v1.reserved0": "must be null",
    "CUDA_MEMCPY3D_v1.reserved1": "must be null",
    "CUmemPoolProps.win32SecurityAttributes": "Windows only",
    "CUmemAllocationProp.win32HandleMetaData": "Windows only",
    "CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS.nvSciSync_fence": "an object of another library",
    "CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS.nvSciSync_fence": "an object of another library",
}

# What was different before the newest release: in which releases, and why the table's form does for them, too.
EARLIER = {
    "CUcheckpointCheckpointArgs": ("12.9 13.0", "had nothing but bytes that must be zero: no storage is asked for"),
    "CUcheckpointRestoreArgs": ("12.9 13.0", "had bytes that must be zero: no pairs (12.9), no storage"),
    "CUdevResource": ("12.9 13.0", "had 8 bytes more for its union: the link behind it is not followed"),
    "CUdevSmResource": ("12.9 13.0", "has grown, within the union of fixed size that holds it"),
    "CUmemPoolProps": ("12.9 13.0", "had one more byte that must be zero"),
    "CUDA_HOST_NODE_PARAMS_v2": ("12.9 13.0", "has grown over bytes of CUgraphNodeParams that must be zero"),
    "CUDA_EVENT_RECORD_NODE_PARAMS": ("12.9 13.0", "has grown over bytes of CUgraphNodeParams that must be zero"),
    "CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2": ("12.9 13.0", "has grown over bytes of CUgraphNodeParams that must be zero"),
    "CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2": ("12.9 13.0", "has grown over bytes of CUgraphNodeParams that must be zero"),
    "cuDevSmResourceSplitByCount": ("12.9 13.0", "two parameters had other names"),
    "CUdevSmResourceSplit_flags": ("12.9 13.0", "now called CUdevSmResourceSplitByCount_flags"),
    "CUdevResourceType": ("12.9 13.0", "counted its values; that is no value any more"),
    "CUjit_target": ("12.9", "had 10.1, which is 11.0 now"),
    "CUCoredumpGenerationFlags": ("12.9 13.0", "a light-weight dump leaves out more now"),
    "CUdevice_attribute": ("12.9 13.0", "the number of its values has grown"),
    "CUfunction_attribute": ("12.9 13.0", "the number of its values has grown"),
    "CUjit_option": ("12.9 13.0", "the number of its values has grown"),
    "CUlimit": ("12.9 13.0", "the number of its values has grown"),
    "CUlaunchAttributeID": ("12.9 13.0", "the number of its values has grown"),
}

# What the headers of other interfaces would declare.
FOREIGN = {
    "GL/gl.h": "typedef unsigned int GLuint; typedef unsigned int GLenum;",
    "EGL/egl.h": "typedef int EGLint;",
    "EGL/eglext.h": "typedef void *EGLImageKHR; typedef void *EGLStreamKHR; typedef void *EGLSyncKHR;",
    "vdpau/vdpau.h": "typedef unsigned int VdpDevice; typedef unsigned int VdpVideoSurface;"
    "typedef unsigned int VdpOutputSurface; typedef int VdpGetProcAddress(unsigned int, unsigned int, void **);",
}
INCLUDES = "".join(
    f"#include <{name}>\n"
    for name in ["stddef.h", "cuda.h", "cudaProfiler.h", "cudaGL.h", "cudaEGL.h", "vdpau/vdpau.h", "cudaVDPAU.h"]
)


class Compiler:
    """gcc over the headers, with the interfaces that are not installed replaced by FOREIGN."""

    def __init__(self, include, folder):
        self.folder = Path(folder)
        for name, text in FOREIGN.items():
            path = self.folder / "include" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        # The first macro makes the headers declare every exported name as it is, old versions and twins included.
        self.command = ["gcc", "-w", "-D__CUDA_API_VERSION_INTERNAL", f"-I{self.folder / 'include'}", f"-I{include}"]

    def preprocess(self, *flags):
        command = [*self.command, "-E", "-P", *flags, "-x", "c", "-"]
        return subprocess.run(command, input=INCLUDES, capture_output=True, text=True, check=True).stdout

    def evaluate(self, expressions):
        """The values of C constant expressions, as integers."""
        lines = [f'  printf("%lld\\n", (long long)({e}));\n' for e in expressions]
        source = self.folder / "values.c"
        source.write_text(f"{INCLUDES}#include <stdio.h>\nint main(void) {{\n{''.join(lines)}  return 0;\n}}\n")
        program = self.folder / "values"
        subprocess.run([*self.command, str(source), "-o", str(program)], check=True)
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        return [int(line) for line in output.split()]


class Member:
    """A member of a C struct: its path of names (none if it has no name itself), its type as spelled, and the members
    in it if it is a struct or union declared in place."""

    def __init__(self, path, spelled, inner=(), union=False):
        self.path, self.spelled, self.inner, self.union = path, spelled, inner, union
        self.offset = self.size = None

    def all(self):
        yield self
        for member in self.inner:
            yield from member.all()


class Header:
    """Declarations of the preprocessed headers."""

    def __init__(self, text):
        self.text = re.sub(r"__attribute__\s*\(\(.*?\)\)|_Alignas\s*\(.*?\)", " ", text)
        # `typedef struct A B;` and later `struct A {...};` are one declaration.
        for tag, name in re.findall(r"\btypedef\s+struct\s+(\w+)\s+(\w+)\s*;", self.text):
            if later := re.search(rf"(?<!typedef )\bstruct\s+{tag}\s*{{", self.text):
                _, end = closed(self.text, later.end())
                body = self.text[later.start() : end]
                self.text = f"{self.text[: later.start()]}typedef {body} {name}{self.text[end:]}"
                self.text = re.sub(rf"\btypedef\s+struct\s+{tag}\s+{name}\s*;", " ", self.text)
        self.enums = {
            name: [value.split("=")[0].strip() for value in body.split(",") if value.strip()]
            for body, name in re.findall(r"typedef\s+enum\s+\w*\s*\{([^}]*)\}\s*(\w+)\s*;", self.text)
        }
        self.typedefs = {
            name: " ".join(definition.split())
            for definition, name in re.findall(r"\btypedef\s+([^;{}()]*?)\s*\b(\w+)\s*;", self.text)
        }
        self.structs, self.unions = {}, set()
        for start in re.finditer(r"\btypedef\s+(struct|union)\s*\w*\s*\{", self.text):
            body, rest = closed(self.text, start.end())
            name = re.match(r"\s*(\w+)", self.text[rest:]).group(1)
            if name.startswith("CU"):
                self.structs[name] = list(self._members(body, ()))
                if start.group(1) == "union":
                    self.unions.add(name)
        self.structs |= {n: self.structs[self.group(n)] for n in self.typedefs if self.group(n) in self.structs}
        self.prototypes = {
            name: [self._parameter(p) for p in params.split(",")] if params.strip() not in ("", "void") else []
            for name, params in re.findall(r"\bCUresult\s+(?:\w+\s+)?(cu\w+)\s*\(([^;{]*?)\)\s*;", self.text)
        }

    def _members(self, body, path):
        at = 0
        while match := re.compile(r"\s*(struct|union)\s*\w*\s*\{|\s*([^;{}]+);").match(body, at):
            if match.group(1):
                inner, at = closed(body, match.end())
                declarator = re.compile(r"\s*(\w*)\s*;").match(body, at)
                at = declarator.end()
                name = declarator.group(1)
                here = (*path, name) if name else path
                yield Member(here if name else None, None, list(self._members(inner, here)), match.group(1) == "union")
            else:
                at = match.end()
                name, spelled = self._parameter(match.group(2))
                yield Member((*path, name), spelled)

    def group(self, name):
        """One name for all that `typedef A B;` makes the same."""
        while (to := self.typedefs.get(name, "")) and re.fullmatch(r"(CU|Vdp|EGL)\w+", to):
            name = to
        return name

    @staticmethod
    def _parameter(text):
        """Name and type of a declaration such as `const char *name` or `int reserved[4]`."""
        before, name, length = re.fullmatch(r"(.*?)(\w+)\s*(\[.*\])?", " ".join(text.split())).groups("")
        return name, f"{before.strip()} {length}".strip()


def closed(text, at):
    """The text from `at` to the brace that closes, and the place behind it."""
    depth, start = 1, at
    while depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[start : at - 1], at


class Types:
    """Tells whether two spellings are one type. A name that the table knows stands for itself, with its aliases."""

    PRIMITIVES = {"void", "char", "int", "long long", "float", "double", "size_t", "unsigned char", "unsigned short",
                  "unsigned int", "unsigned long long"}
    # On 64-bit Linux.
    SAME = {"unsigned": "unsigned int", "long": "long long", "long int": "long long",
            "unsigned long": "unsigned long long", "unsigned long int": "unsigned long long"}

    def __init__(self, header, sizes, spellings):
        self.group, self.typedefs, self.unions, self.sizes = header.group, header.typedefs, header.unions, sizes
        names = {re.sub(r"\[.*?\]|\*|\bconst\b", " ", s).strip() for s in spellings}
        self.known = {self.group(n) for n in names if n not in self.PRIMITIVES}

    def canonical(self, spelled, parameter=False):
        before, bracket, after = spelled.partition("[")
        length, _, behind = after.partition("]")
        tokens = re.findall(r"\w+|\*", before)
        star = tokens.index("*") if "*" in tokens else len(tokens)
        constant = "const" in tokens[:star]
        text = self._base(" ".join(t for t in tokens[:star] if t not in ("const", "struct", "enum")))
        if "*" in behind:
            # `T [N] *`: only the table writes it, for a union handed over by pointer.
            text, tokens, bracket = f"bytes[{self.sizes[text] * int(length)}]", [*tokens, "*"], ""
        for token in tokens[star:]:
            if token == "*":
                text, constant = f"{text}{' const' if constant else ''} *", False
            else:
                constant = True
        if bracket:
            # The length shows in the size, which is compared by itself.
            text += " *" if parameter else " []"
        return text

    def _base(self, name):
        if self.group(name) in self.known:
            return self.group(name)
        if name in self.unions:
            return f"bytes[{self.sizes[name]}]"
        if name in self.PRIMITIVES or name not in self.typedefs:
            return self.SAME.get(name, name)
        return self.canonical(self.typedefs[name])


class Findings:
    def __init__(self):
        self.rows = []
        self.used = set()

    def add(self, kind, where, table, header):
        self.rows.append((kind, where, str(table), str(header)))

    def explain(self, version):
        """Takes out what an older release lacks, and what EARLIER explains."""
        lacking = {("prototype", "none"), ("struct", "none"), ("value", "none")}
        rows = [row for row in self.rows if (row[0], row[3]) not in lacking]
        names = {row: re.split(r"[.(:]", row[1])[0] for row in rows}
        explained = {name for name, (versions, _) in EARLIER.items() if version in versions.split()}
        self.rows = [row for row in rows if names[row] not in explained]
        for name in sorted(explained - set(names.values())):
            self.add("exception", f"EARLIER: {name}", version, "no longer needed")

    def meant(self, exceptions, name):
        """Whether a difference is listed as meant."""
        self.used.add((id(exceptions), name))
        return name in exceptions

    def add_stale(self, **lists):
        for label, exceptions in lists.items():
            for name in exceptions:
                if (id(exceptions), name) not in self.used:
                    self.add("exception", f"{label}: {name}", "", "no longer needed")

    def print(self):
        titles = ("what", "where", "table", "header")
        widths = [max(len(row[i]) for row in [titles, *self.rows]) for i in range(3)]
        for row in [titles, *self.rows]:
            print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip())


def check_functions(table, header, types, findings):
    for name, function in table.items():
        prototype = header.prototypes.get(name)
        if prototype is None:
            if not (function["opaque"] and findings.meant(WITHOUT_PROTOTYPE, name)):
                findings.add("prototype", name, "described", "none")
            continue
        if function["opaque"]:
            findings.add("prototype", name, "opaque", "has one")
            continue
        params = function["params"]
        if len(params) != len(prototype):
            findings.add("arity", name, len(params), len(prototype))
            continue
        # The header at times calls a parameter by another name in the twin.
        twins = [function["twin_of"], f"{name}_ptsz", f"{name}_ptds"]
        alike = [p for p in map(header.prototypes.get, twins) if p and len(p) == len(prototype)]
        for i, (param, (theirs, spelled)) in enumerate(zip(params, prototype)):
            where = f"{name}({theirs})"
            if param["name"] not in (theirs, *(twin[i][0] for twin in alike)):
                findings.add("name", where, param["name"], theirs)
            ours, theirs = types.canonical(param["type"]), types.canonical(spelled, parameter=True)
            if ours != theirs:
                findings.add("type", where, ours, theirs)
    for name in header.prototypes.keys() - table.keys():
        if not findings.meant(NOT_EXPORTED, name):
            findings.add("function", name, "missing", "has it")


def check_structs(table, header, types, compiler, findings):
    measured = measure(table, header, compiler, findings)
    for name, struct in table.items():
        if name not in measured:
            continue
        size, members = measured[name]
        if struct["size"] != size:
            findings.add("size", name, struct["size"], size)
        for field in struct["fields"]:
            check_field(name, field, members, types, findings)
        covered = {byte for field in struct["fields"] for byte in span(field["offset"], field["size"])}
        for member in members:
            if not member.inner and not covered.issuperset(span(member.offset, member.size)):
                findings.add("field", f"{name}.{'.'.join(member.path)}", "missing", f"{member.offset}+{member.size}")


def measure(table, header, compiler, findings):
    """Size and members of each struct of the table, as C lays them out."""
    wanted, expressions = {}, []
    for name in table:
        parent, path, skip = name, (), 0
        if name not in header.structs:
            if findings.meant(NESTED, name):
                parent, member, skip = NESTED[name]
                path = tuple(member.split("."))
            else:
                parent, path = split_name(name, header)
        members = header.structs.get(parent)
        for part in path:
            found = [m.inner for m in flattened(members or []) if m.path and m.path[-1] == part]
            members = found[0] if found else None
        if members is None:
            findings.add("struct", name, "described", "none")
            continue
        whole = f"(({parent} *)0)" + ("->" + ".".join(path) if path else "[0]")
        start = f"({skip}" + (f" + offsetof({parent}, {'.'.join(path)})" if path else "") + ")"
        wanted[name] = (flattened(members), len(expressions))
        expressions.append(f"sizeof({whole}) - {skip}")
        for full in (".".join(m.path) for m in flattened(members) if m.path):
            expressions += [f"offsetof({parent}, {full}) - {start}", f"sizeof((({parent} *)0)->{full})"]
    values = compiler.evaluate(expressions)
    measured = {}
    for name, (members, at) in wanted.items():
        size, rest = values[at], iter(values[at + 1 :])
        for member in members:
            if member.path:
                member.offset, member.size = next(rest), next(rest)
        for member in reversed(members):
            if not member.path:
                member.offset = min(m.offset for m in member.inner)
                member.size = max(m.offset + m.size for m in member.inner) - member.offset
        # The header's struct is measured again, from elsewhere, for a struct in it.
        measured[name] = (size, [copy.copy(m) for m in members if m.offset >= 0])
    return measured


def flattened(members):
    return [each for member in members for each in member.all()]


def span(offset, size):
    return range(offset, offset + size)


def split_name(name, header):
    """`CUmemAllocationProp_allocFlags` is the member allocFlags of CUmemAllocationProp."""
    for parent in header.structs:
        if name.startswith(parent + "_"):
            rest = name[len(parent) + 1 :]
            for member in flattened(header.structs[parent]):
                if member.path and "_".join(member.path) == rest:
                    return parent, member.path
    return None, ()


def check_field(struct, field, members, types, findings):
    where = f"{struct}.{field['name']}"
    place = f"{field['offset']}+{field['size']}"
    there = [m for m in members if (m.offset, m.size) == (field["offset"], field["size"])]
    named = [m for m in there if m.path and any("_".join(m.path[k:]) == field["name"] for k in range(len(m.path)))]
    if not named and findings.meant(OWN_FIELDS, where):
        return
    inside = set(span(field["offset"], field["size"]))
    if "padding" in field["name"] and not any(inside & set(span(m.offset, m.size)) for m in members if not m.inner):
        return
    if not there:
        other = [m for m in members if m.path and m.path[-1] == field["name"]]
        findings.add("field", where, place, ", ".join(f"{m.offset}+{m.size}" for m in other) or "nothing there")
    elif not named:
        if not (field["role"] == "Union" and any(m.union and not m.path for m in there)):
            findings.add("name", where, field["name"], " or ".join(m.path[-1] for m in there if m.path))
    elif named[0].spelled and field["role"] != "Union":
        ours, theirs = types.canonical(field["type"]), types.canonical(named[0].spelled)
        # A device address that the header spells as a pointer, and enumerations recorded as words.
        address = ours == "CUdeviceptr_v2" and theirs.endswith("*")
        word = ours == "unsigned int" and theirs in PLAIN_WORD_ENUMS
        if ours != theirs and not address and not word and not findings.meant(OWN_FIELDS, where):
            findings.add("type", where, ours, theirs)


def check_enums(table, header, types, compiler, findings):
    names = sorted({value for values in header.enums.values() for value in values})
    macros = set(re.findall(r"^#define (\w+) ", compiler.preprocess("-dM"), re.M))
    names += sorted({value for values in table.values() for value in values} & macros)
    values = dict(zip(names, compiler.evaluate(names)))
    ours = {types.group(name): name for name in table}
    theirs = {types.group(name): name for name in header.enums}
    for group, name in theirs.items():
        if group not in ours:
            if name.startswith("CU") and not findings.meant(PLAIN_WORD_ENUMS, name):
                findings.add("enum", name, "missing", "has it")
            continue
        for value in header.enums[name]:
            if table[ours[group]].get(value) != values[value]:
                findings.add("value", f"{name}::{value}", table[ours[group]].get(value, "missing"), values[value])
        for value in table[ours[group]].keys() - set(header.enums[name]):
            findings.add("value", f"{name}::{value}", table[ours[group]][value], "none")
    for group in ours.keys() - theirs.keys():
        # Flags that the header gives as macros.
        for value, number in table[ours[group]].items():
            if values.get(value) != number:
                findings.add("value", f"{ours[group]}::{value}", number, values.get(value, "none"))


def check_roles(functions, structs, findings):
    for name, function in functions.items():
        if function["twin_of"]:
            continue
        for param in function["params"]:
            check_role(f"{name}({param['name']})", param, function["class"] == "query", findings)
    for name, struct in structs.items():
        for field in struct["fields"]:
            check_role(f"{name}.{field['name']}", field, False, findings)


def check_role(where, field, query, findings):
    if field["type"].endswith("*"):
        if field["role"] == "Plain":
            findings.add("role", where, "none", field["type"])
        elif field["role"] == "Opaque" and not query and not findings.meant(OPAQUE, where):
            findings.add("role", where, "Opaque", field["type"])


def main():
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    functions = {line["function"]: line for line in lines if "function" in line}
    structs = {line["struct"]: line for line in lines if "struct" in line}
    enums = {line["enum"]: line["values"] for line in lines if "enum" in line}

    releases = [release.split("=") for release in sys.argv[2:]]
    versions = {version for version, _ in releases}
    wrong = 0
    for number, (version, include) in enumerate(releases):
        findings = compare(functions, structs, enums, include)
        if number > 0:
            findings.explain(version)
        else:
            findings.add_stale(
                NOT_EXPORTED=NOT_EXPORTED, WITHOUT_PROTOTYPE=WITHOUT_PROTOTYPE, PLAIN_WORD_ENUMS=PLAIN_WORD_ENUMS,
                NESTED=NESTED, OWN_FIELDS=OWN_FIELDS, OPAQUE=OPAQUE,
            )  # fmt: skip
            for name, (when, _) in EARLIER.items():
                if not set(when.split()) <= versions:
                    findings.add("exception", f"EARLIER: {name}", when, "no such release here")
        print(f"{len(functions)} functions, {len(structs)} structs, {len(enums)} enumerations against CUDA {version}:", end=" ")
        if findings.rows:
            print(f"{len(findings.rows)} differences")
            findings.print()
        else:
            print("no differences" if number == 0 else "none but what came later and what is explained")
        wrong += len(findings.rows)
    return int(wrong > 0)


def compare(functions, structs, enums, include):
    findings = Findings()
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(include, folder)
        header = Header(compiler.preprocess())
        sized = ["unsigned long long", "unsigned int", "unsigned char", *header.unions]
        sizes = dict(zip(sized, compiler.evaluate(f"sizeof({name})" for name in sized)))
        spelled = [p["type"] for f in functions.values() for p in f["params"]]
        spelled += [f["type"] for s in structs.values() for f in s["fields"]]
        types = Types(header, sizes, [*spelled, *structs, *enums])
        check_functions(functions, header, types, findings)
        check_structs(structs, header, types, compiler, findings)
        check_enums(enums, header, types, compiler, findings)
        check_roles(functions, structs, findings)
    return findings


sys.exit(main())

"""Perfetto's trace_processor as its pages have it (trace_processor.js), asked as the class of that name in Perfetto's wheel is."""

import os
import struct
import subprocess
import types

from google.protobuf import message_factory
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

APPEND, FINALIZE, QUERY = 1, 2, 3
PIECE = 1 << 20
POOL = ProtoFactory(PlatformDelegate()).descriptor_pool
Stream = message_factory.GetMessageClass(POOL.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream"))


class TraceProcessor:
    def __init__(self, trace, engine):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_processor.js")
        self.node = subprocess.Popen(["node", script, engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.asked = 0
        with open(trace, "rb") as file:
            while piece := file.read(PIECE):
                told = self.ask(APPEND, append_trace_data=piece).append_result
                assert not told.error, told.error
        self.ask(FINALIZE)

    def ask(self, request, sql=None, **fields):
        stream, self.asked = Stream(), self.asked + 1
        message = stream.msg.add(seq=self.asked, request=request, **fields)
        if sql is not None:
            message.query_args.sql_query = sql
        data = stream.SerializeToString()
        self.node.stdin.write(struct.pack("<I", len(data)) + data)
        self.node.stdin.flush()
        return self.answer()

    def answer(self):
        stream = Stream()
        stream.ParseFromString(self.node.stdout.read(*struct.unpack("<I", self.node.stdout.read(4))))
        assert not stream.msg[0].fatal_error, stream.msg[0].fatal_error
        return stream.msg[0]

    def query(self, sql):
        columns, cells, is_last = [], [], False
        message = self.ask(QUERY, sql=sql)
        while True:
            result = message.query_result
            assert not result.error, result.error
            columns = columns or list(result.column_names)
            for batch in result.batch:
                kinds = {"CELL_VARINT": batch.varint_cells, "CELL_FLOAT64": batch.float64_cells, "CELL_STRING": batch.string_cells.split("\0")}
                values = {kind: iter(all) for kind, all in kinds.items()}
                names = batch.DESCRIPTOR.enum_types_by_name["CellType"].values_by_number
                cells += [next(values[names[cell].name]) if names[cell].name in values else None for cell in batch.cells]
                is_last = is_last or batch.is_last_batch
            if is_last:
                rows = range(0, len(cells), max(len(columns), 1))
                return [types.SimpleNamespace(**dict(zip(columns, cells[at : at + len(columns)]))) for at in rows]
            message = self.answer()

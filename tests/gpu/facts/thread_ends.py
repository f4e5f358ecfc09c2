"""Whether the driver by itself hangs when a thread ends whose own default stream was given work.

The calls of an array library's memory tests, in their order: managed memory, pools, streams, a thread that works on its
own default stream and ends, memory in the order of the default stream, and then a new stream. The hang is in making that one.

    thread_ends.py [without]        "without": the thread works on the legacy stream

Prints "hung" and where after 15 seconds in one step, and stays in it to be looked at; else "ok".
"""
import ctypes
import gc
import os
import sys
import threading
import time

import cupy
from cupy.cuda import Stream, memory

own = Stream.null if "without" in sys.argv else Stream.ptds
pool = cupy.get_default_memory_pool()
step = ["start", time.time()]


def at(what):
    step[:] = what, time.time()


def watch():
    while time.time() - step[1] < 15:
        time.sleep(1)
    print("hung:", step[0], flush=True)


def use():
    cupy.arange(128, dtype=cupy.int64)


def kinds_of_memory():
    for allocate in (memory._malloc, memory.malloc_managed, memory.malloc_async):
        owner = allocate(24)
        unowned = memory.UnownedMemory(owner.ptr, 24, owner)
        array = cupy.ndarray((2, 3), cupy.float32, memory.MemoryPointer(unowned, 0))
        array[:] = 2
        assert (array == 2).all()


def copies(stream):
    there, back, value = memory.alloc(4), ctypes.c_int(), ctypes.c_int(100)
    there.copy_from_async(ctypes.cast(ctypes.byref(value), ctypes.c_void_p), 4, stream=stream)
    there.copy_to_host_async(ctypes.cast(ctypes.byref(back), ctypes.c_void_p), 4, stream=stream)
    stream.synchronize()
    assert back.value == 100


def two_threads(stream):
    private = memory.MemoryPool()

    def job():
        with cupy.cuda.using_allocator(private.malloc), stream:
            use()

    job()
    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    thread.join()


threading.Thread(target=watch, daemon=True).start()
at("kinds of memory")
kinds_of_memory()
at("copies")
copies(Stream())
copies(Stream.null)
at("threads on streams of the program")
two_threads(Stream.null)
two_threads(Stream())
at("threads on a stream of their own")
two_threads(own)
at("memory in stream order")
memory.set_allocator(memory.malloc_async)
use()
at("a new stream")
new = Stream()
with new:
    use()
del new
gc.collect()
memory.set_allocator(pool.malloc)
print("ok", flush=True)
os._exit(0)

// A driver call that calls back while it runs
#pragma once
#include "check.h"

static CUfunction unwinding_function;

static void unwinding_start(void)
{
    start_driver();
    unwinding_function = find_kernel(load_module("vector_add"), "vector_add");
}

static CUresult call_with_callback(CUoccupancyB2DSize callback)
{
    int grid, block;

    return cuOccupancyMaxPotentialBlockSize(&grid, &block, unwinding_function, callback, 0, 0);
}

// What a program does after it got away: two calls
static void go_on(void)
{
    CUcontext context;
    int device;

    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuCtxGetDevice(&device));
}

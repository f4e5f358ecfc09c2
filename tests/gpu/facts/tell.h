// Prints calls and what they return, by name
#pragma once
#include "check.h"

#define TELL(call) do { \
        const char *name_; \
        CUresult result_ = call; \
        cuGetErrorName(result_, &name_); \
        printf("%-70.70s %s\n", #call, name_); \
    } while (0)

// Every PTX operation that the simulated driver knows, by modifier and type, on numbers at the edges of each type.
//
//   operations run > FILE        runs all with the driver that is loaded: a line each, with a hash and all results
//   operations compare SIM GPU   the operations whose results differ between two such files, with inputs and both values
//
// A run on the simulated driver and one on a GPU are compared (scripts/gpu-operations): the GPU is the judge. Approximations
// may differ by the error that PTX grants them, which is the last column of the table; not-a-number by its payload in binary64.
#include "../../apps/check.h"
#include <inttypes.h>
#include <math.h>

enum { SIDE = 32, THREADS = SIDE * SIDE, LONGEST = 160 };

// Kinds of numbers: f F binary32 and 64, e E half and pair, b B bfloat16 and pair, s i l integers of 16, 32, 64 bits, p predicates
struct row {
    const char *operations; // {a,b} stands for a choice, which may be empty
    const char *kinds;      // of the result, then of the operands
    double error;           // relative; negative: absolute
};

#define ROUND "{,.rn,.rz,.rm,.rp}"
#define ROUNDED "{.rn,.rz,.rm,.rp}"
static const struct row ROWS[] = {
    {"{add,sub,mul}" ROUND "{,.ftz}{,.sat}.f32", "fff", 0},
    {"{add,sub,mul}" ROUND ".f64", "FFF", 0},
    {"{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16", "eee", 0},
    {"{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16x2", "EEE", 0},
    {"{add,sub,mul}{,.rn}.bf16", "bbb", 0},
    {"{add,sub,mul}{,.rn}.bf16x2", "BBB", 0},
    {"fma" ROUNDED "{,.ftz}{,.sat}.f32", "ffff", 0},
    {"fma" ROUNDED ".f64", "FFFF", 0},
    {"fma.rn{,.ftz}{,.sat,.relu}.f16", "eeee", 0},
    {"fma.rn{,.ftz}{,.sat,.relu}.f16x2", "EEEE", 0},
    {"fma.rn{,.relu}.bf16", "bbbb", 0},
    {"fma.rn{,.relu}.bf16x2", "BBBB", 0},
    {"div" ROUNDED "{,.ftz}.f32", "fff", 0},
    {"div" ROUNDED ".f64", "FFF", 0},
    {"{sqrt,rcp}" ROUNDED "{,.ftz}.f32", "ff", 0},
    {"{sqrt,rcp}" ROUNDED ".f64", "FF", 0},
    {"div.{approx,full}{,.ftz}.f32", "fff", 0x1p-21},
    {"{sqrt,rcp,rsqrt}.approx{,.ftz}.f32", "ff", 0x1p-21},
    {"{rcp,rsqrt}.approx.ftz.f64", "FF", 0x1p-19},
    {"{sin,cos}.approx{,.ftz}.f32", "ff", -0x1p-20},
    {"lg2.approx{,.ftz}.f32", "ff", 0x1p-20},
    {"ex2.approx{,.ftz}.f32", "ff", 0x1p-21},
    {"tanh.approx.f32", "ff", 0x1p-10},
    {"{ex2,tanh}.approx.f16", "ee", 0x1p-9},
    {"{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32", "fff", 0},
    {"{min,max}.f64", "FFF", 0},
    {"{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16", "eee", 0},
    {"{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f16x2", "EEE", 0},
    {"{min,max}{,.NaN}{,.xorsign.abs}.bf16", "bbb", 0},
    {"{min,max}{,.NaN}{,.xorsign.abs}.bf16x2", "BBB", 0},
    {"{abs,neg}{,.ftz}.f32", "ff", 0},
    {"{abs,neg}.f64", "FF", 0},
    {"{abs,neg}{,.ftz}.f16x2", "EE", 0},
    {"{abs,neg}.bf16x2", "BB", 0},
    {"copysign.f32", "fff", 0},
    {"testp.{finite,infinite,notanumber}.f32", "pf", 0},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32", "pff", 0},
    {"setp.{lt,geu,nan}.f64", "pFF", 0},
    {"set.{lt,neu}{,.ftz}.{u32,f32}.f32", "iff", 0},
    {"set.{eq,ltu}{,.ftz}.{f16x2,u32}.f16x2", "iEE", 0},
    {"set.{eq,ltu}.{bf16x2,u32}.bf16x2", "iBB", 0},
    {"set.{eq,ltu}.bf16.bf16", "sbb", 0},
    {"slct{,.ftz}.b32.f32", "iiif", 0},
    {"slct.b64.s32", "llli", 0},
    {"{add,sub,min,max,div,rem}.{s32,u32}", "iii", 0},
    {"{add,sub}.sat.s32", "iii", 0},
    {"{min,max}.relu.s32", "iii", 0},
    {"{add,sub,min,max,div,rem}.{s64,u64}", "lll", 0},
    {"{add,sub,min,max,div,rem}.{s16,u16}", "sss", 0},
    {"{abs,neg}.s32", "ii", 0},
    {"mul.{lo,hi}.{s32,u32}", "iii", 0},
    {"mul.{lo,hi}.{s64,u64}", "lll", 0},
    {"mul.wide.{s32,u32}", "lii", 0},
    {"mad.{lo,hi}.{s32,u32}", "iiii", 0},
    {"mad.hi.sat.s32", "iiii", 0},
    {"mad.wide.{s32,u32}", "liil", 0},
    {"mul24.{lo,hi}.{s32,u32}", "iii", 0},
    {"mad24.{lo,hi}.{s32,u32}", "iiii", 0},
    {"mad24.hi.sat.s32", "iiii", 0},
    {"sad.{s32,u32}", "iiii", 0},
    {"{popc,clz,brev}.b32", "ii", 0},
    {"{bfind,bfind.shiftamt}.{s32,u32}", "ii", 0},
    {"bfe.{s32,u32}", "iiii", 0},
    {"shf.{l,r}.{wrap,clamp}.b32", "iiii", 0},
    {"prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}", "iiii", 0},
    {"dp4a.{s32,u32}.{s32,u32}", "iiii", 0},
    {"cvt.{rni,rzi,rmi,rpi}{,.ftz}.{s8,u8,s16,u16,s32,u32}.f32", "if", 0},
    {"cvt.{rni,rzi,rmi,rpi}{,.ftz}.{s64,u64}.f32", "lf", 0},
    {"cvt.{rni,rzi,rmi,rpi}.{s8,u8,s16,u16,s32,u32}.f64", "iF", 0},
    {"cvt.{rni,rzi,rmi,rpi}.{s64,u64}.f64", "lF", 0},
    {"cvt.{rni,rzi,rmi,rpi}.{s16,u16,s32,u32}.f16", "ie", 0},
    {"cvt.{rn,rz,rm,rp}{,.sat}.f32.{s32,u32}", "fi", 0},
    {"cvt.{rn,rz,rm,rp}.f32.{s64,u64}", "fl", 0},
    {"cvt.{rn,rz,rm,rp}.f64.{s64,u64}", "Fl", 0},
    {"cvt.{rn,rz,rm,rp}.f16.{s32,u32}", "ei", 0},
    {"cvt.{rn,rz,rm,rp}{,.ftz}{,.sat}.f32.f64", "fF", 0},
    {"cvt{,.ftz}{,.sat}.f64.f32", "Ff", 0},
    {"cvt.{rni,rzi,rmi,rpi}{,.ftz}{,.sat}.f32.f32", "ff", 0},
    {"cvt.{rni,rzi,rmi,rpi}.f64.f64", "FF", 0},
    {"cvt.{rn,rz}{,.relu}.f16.f32", "ef", 0},
    {"cvt.{rn,rz,rm,rp}.f16.f64", "eF", 0},
    {"cvt.f32.f16", "fe", 0},
    {"cvt.f32.bf16", "fb", 0},
    {"cvt.{rn,rz}{,.relu}.bf16.f32", "bf", 0},
    {"cvt.{rn,rz}{,.relu}.f16x2.f32", "Eff", 0},
    {"cvt.{rn,rz}{,.relu}.bf16x2.f32", "Bff", 0},
    {"cvt{,.sat}.{s8,u8,s16,u16}.{s32,u32}", "ii", 0},
    {"cvt.s16.{s8,u8}", "ii", 0},
    {"cvt.pack.sat.{s16,u16}.s32", "iii", 0},
    {"cvt.pack.sat.{s8,u8}.s32.b32", "iiii", 0},
};

static const uint64_t SINGLES[] = {0, 1, 0x7fffff, 0x800000, 0x800001, 0x33800000, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x40490fdb,
    0x4b000001, 0x7f7fffff, 0x7f800000, 0x7fc00001};
static const uint64_t DOUBLES[] = {0, 1, 0x000fffffffffffff, 0x0010000000000000, 0x36a0000000000000, 0x3810000000000001,
    0x3fefffffffffffff, 0x3ff0000000000000, 0x3ff0020000001000, 0x41dfffffffe00000, 0x47efffffe0000000, 0x7fefffffffffffff,
    0x7ff0000000000000, 0x7ff8000000000001};
static const uint64_t HALVES[] = {0, 1, 0x3ff, 0x400, 0x401, 0x1400, 0x3bff, 0x3c00, 0x3c01, 0x4248, 0x5bff, 0x7bff, 0x7c00, 0x7e01};
static const uint64_t BRAINS[] = {0, 1, 0x7f, 0x80, 0x81, 0x3380, 0x3f7f, 0x3f80, 0x3f81, 0x4049, 0x4f00, 0x7f7f, 0x7f80, 0x7fc1};
static const uint64_t WHOLES[] = {0, 1, 2, 3, 5, 31, 32, 127, 255, 0x7fff, 0xffff, 0x7fffff, 0x7fffffff, 0x7fffffffffffffff};

static uint64_t scramble(uint64_t value)
{
    value = (value + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
}

static uint64_t number(char kind, int index)
{
    uint64_t low;
    const uint64_t *edges = kind == 'f' ? SINGLES : kind == 'F' ? DOUBLES : kind == 'e' ? HALVES : kind == 'b' ? BRAINS : WHOLES;
    int bits = kind == 'f' || kind == 'i' ? 32 : kind == 'F' || kind == 'l' ? 64 : 16;

    if (kind == 'E' || kind == 'B') {
        low = number(kind == 'E' ? 'e' : 'b', index);
        return number(kind == 'E' ? 'e' : 'b', (index * 7 + 3) % SIDE) << 16 | low;
    }
    if (index >= 28)
        low = scramble(index * 100 + kind);
    else if (edges == WHOLES)
        low = index % 2 ? ~edges[index / 2] : edges[index / 2];
    else
        low = edges[index / 2] | (uint64_t)(index % 2) << (bits - 1);
    return bits == 64 ? low : low & ((UINT64_C(1) << bits) - 1);
}

static uint64_t input(const char *kinds, int operand, int thread)
{
    int index[] = {thread % SIDE, thread / SIDE, scramble(thread) % SIDE};

    return number(kinds[operand], index[operand - 1]);
}

// Calls `see` with each choice that `text` stands for.
static void expand(const char *text, const struct row *row, void (*see)(const char *, const struct row *))
{
    const char *open = strchr(text, '{'), *close = open ? strchr(open, '}') : NULL, *start, *end;
    char one[LONGEST];

    if (!open) {
        see(text, row);
        return;
    }
    for (start = open + 1; start <= close; start = end + 1) {
        end = start + strcspn(start, ",}");
        snprintf(one, sizeof one, "%.*s%.*s%s", (int)(open - text), text, (int)(end - start), start, close + 1);
        expand(one, row, see);
    }
}

static char register_of(char kind)
{
    return strchr("fiEB", kind) ? 'r' : strchr("Fl", kind) ? 'd' : kind == 'p' ? 'p' : 'h';
}

static CUresult execute(const char *operation, const char *kinds, CUdeviceptr memory, uint64_t *results)
{
    char text[4096], operands[LONGEST] = "";
    CUmodule module;
    CUfunction function;
    CUresult result;
    void *arguments[] = {&memory};
    size_t at = 0;

    for (int i = 0; kinds[i]; i++)
        at += snprintf(operands + at, sizeof operands - at, "%s%%%c%d", i ? ", " : "", register_of(kinds[i]), i);
    snprintf(text, sizeof text,
        ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 memory)\n{\n"
        ".reg .b16 %%h<4>; .reg .b32 %%r<5>; .reg .b64 %%d<6>; .reg .pred %%p<2>;\n"
        "ld.param.u64 %%d4, [memory]; mov.u32 %%r4, %%tid.x; mul.wide.u32 %%d5, %%r4, 32; add.u64 %%d4, %%d4, %%d5;\n"
        "ld.global.u64 %%d1, [%%d4]; ld.global.u64 %%d2, [%%d4+8]; ld.global.u64 %%d3, [%%d4+16];\n"
        "cvt.u32.u64 %%r1, %%d1; cvt.u32.u64 %%r2, %%d2; cvt.u32.u64 %%r3, %%d3;\n"
        "cvt.u16.u64 %%h1, %%d1; cvt.u16.u64 %%h2, %%d2; cvt.u16.u64 %%h3, %%d3;\n"
        "%s %s;\n%s st.global.u64 [%%d4+24], %%d0;\nret;\n}\n",
        operation, operands,
        (const char *[]){"", "cvt.u64.u32 %d0, %r0;", "cvt.u64.u16 %d0, %h0;", "selp.u64 %d0, 1, 0, %p0;"}
            [strchr("drhp", register_of(kinds[0])) - "drhp"]);
    result = cuModuleLoadData(&module, text);
    if (result)
        return result;
    CHECK(cuModuleGetFunction(&function, module, "k"));
    result = cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, 0, arguments, NULL);
    if (!result)
        result = cuCtxSynchronize();
    if (!result)
        CHECK(cuMemcpyDtoH_v2(results, memory, THREADS * 32));
    cuModuleUnload(module);
    return result;
}

static void run(const char *operation, const struct row *row)
{
    static uint64_t words[THREADS][4];
    uint64_t hash = 0;
    CUdeviceptr memory;
    CUresult result;

    for (int thread = 0; thread < THREADS; thread++)
        for (int operand = 1; operand <= 3; operand++)
            words[thread][operand - 1] = operand < (int)strlen(row->kinds) ? input(row->kinds, operand, thread) : 0;
    CHECK(cuMemAlloc_v2(&memory, sizeof words));
    CHECK(cuMemcpyHtoD_v2(memory, words, sizeof words));
    result = execute(operation, row->kinds, memory, words[0]);
    if (result) {
        printf("%s error %d\n", operation, (int)result);
        // An operation that is not simulated breaks its context.
        if (cuMemFree_v2(memory)) {
            CHECK(cuDevicePrimaryCtxReset_v2(0));
            start_driver();
        }
        return;
    }
    for (int thread = 0; thread < THREADS; thread++)
        hash = scramble(hash ^ words[thread][3]);
    printf("%s %016" PRIx64, operation, hash);
    for (int thread = 0; thread < THREADS; thread++)
        printf(" %" PRIx64, words[thread][3]);
    puts("");
    CHECK(cuMemFree_v2(memory));
}

static double value_of(char kind, uint64_t bits)
{
    uint32_t word = bits;
    double wide;
    float single;

    if (kind == 'F') {
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    }
    if (kind == 'e') {
        int place = bits >> 10 & 31, rest = bits & 1023;
        double size = place == 31 ? (rest ? NAN : INFINITY) : place ? ldexp(1024 + rest, place - 25) : ldexp(rest, -24);
        return bits >> 15 & 1 ? -size : size;
    }
    memcpy(&single, &word, sizeof single);
    return single;
}

static int same(const struct row *row, uint64_t x, uint64_t y)
{
    double a, b;

    if (x == y)
        return 1;
    if (!strchr("fFe", row->kinds[0]) || (row->error == 0 && row->kinds[0] != 'F'))
        return 0;
    a = value_of(row->kinds[0], x);
    b = value_of(row->kinds[0], y);
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (row->error < 0)
        return fabs(a - b) <= -row->error;
    return row->error > 0 && fabs(a - b) <= row->error * fabs(b) + 0x1p-148;
}

static FILE *files[2];
static int compared, different, refused;

static void compare(const char *operation, const struct row *row)
{
    static char lines[2][THREADS * 20];
    char *rest[2];
    int shown = 0;
    size_t length = strlen(operation);

    for (int i = 0; i < 2; i++) {
        if (!fgets(lines[i], sizeof lines[i], files[i]) || strncmp(lines[i], operation, length) || lines[i][length] != ' ') {
            fprintf(stderr, "file %d has no results of %s where they should be\n", i + 1, operation);
            exit(2);
        }
        rest[i] = lines[i] + length + 1;
    }
    if (!strncmp(rest[0], "error", 5) || !strncmp(rest[1], "error", 5)) {
        refused++;
        printf("%s: first %.9s, second %.9s\n", operation, rest[0], rest[1]);
        return;
    }
    compared++;
    rest[0] = strchr(rest[0], ' ');
    rest[1] = strchr(rest[1], ' ');
    for (int thread = 0; thread < THREADS; thread++) {
        uint64_t x = strtoull(rest[0], &rest[0], 16), y = strtoull(rest[1], &rest[1], 16);
        if (same(row, x, y))
            continue;
        if (shown++ >= 4)
            continue;
        printf("%s of", operation);
        for (int operand = 1; row->kinds[operand]; operand++)
            printf(" %" PRIx64, input(row->kinds, operand, thread));
        printf(": first %" PRIx64 ", second %" PRIx64 "\n", x, y);
    }
    if (shown)
        printf("%s: %d of %d differ\n", operation, shown, THREADS);
    different += shown > 0;
}

int main(int argc, char **argv)
{
    int comparing = argc == 4 && !strcmp(argv[1], "compare");

    if (!comparing && (argc != 2 || strcmp(argv[1], "run"))) {
        fprintf(stderr, "operations run > FILE | operations compare SIM GPU\n");
        return 2;
    }
    for (int i = 0; comparing && i < 2; i++)
        if (!(files[i] = fopen(argv[2 + i], "r"))) {
            perror(argv[2 + i]);
            return 2;
        }
    if (!comparing)
        start_driver();
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        expand(ROWS[i].operations, &ROWS[i], comparing ? compare : run);
    if (comparing)
        printf("%d operations compared, %d differ, %d not run by one of them\n", compared, different, refused);
    return different != 0;
}

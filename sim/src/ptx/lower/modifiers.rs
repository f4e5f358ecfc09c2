//! The modifiers that each operation allows. All others are refused when they are reached.

use crate::ptx::types::Type;

/// The forms of an operation: words in braces are choices, a question mark says that one may be missing. Types
/// come in the order of the text, other modifiers in any order, as compilers write both.
#[rustfmt::skip]
const FORMS: &[(&str, &[&str])] = &[
    // Integer arithmetic
    ("add sub", &["INT", "sat s32", "cc W", "ROUND? ftz? sat? f32", "ROUND? f64", "rn? ftz? sat? f16|f16x2",
        "rn? bf16|bf16x2", "ROUND? sat? f32 f16|bf16"]),
    ("addc subc", &["cc? W"]),
    ("mul", &["lo|hi|wide INT", "ROUND? ftz? sat? f32", "ROUND? f64", "rn? ftz? sat? f16|f16x2", "rn? bf16|bf16x2"]),
    ("mad", &["lo|hi|wide INT", "hi sat s32", "lo|hi cc W", "ROUND? ftz? sat? f32", "ROUND f64"]),
    ("madc", &["lo|hi cc? W"]),
    ("mul24", &["lo|hi u32|s32"]),
    ("mad24", &["lo|hi u32|s32", "hi sat s32"]),
    ("sad rem", &["INT"]),
    ("div", &["INT", "approx|full|ROUND ftz? f32", "ROUND f64"]),
    ("min max", &["INT", "relu s32", "ftz? NaN? xorsign? abs? f32", "f64",
        "ftz? NaN? xorsign? abs? f16|f16x2|bf16|bf16x2"]),
    ("abs neg", &["s16|s32|s64", "ftz? f32", "f64", "ftz? f16|f16x2", "bf16|bf16x2"]),
    ("popc clz", &["b32|b64"]),
    ("brev", &["b32|b64"]),
    ("bfind", &["shiftamt? W"]),
    ("bfe", &["W"]),
    ("bfi", &["b32|b64"]),
    ("dp4a", &["u32|s32 u32|s32"]),
    // Floating point
    ("fma", &["ROUND ftz? sat? f32", "ROUND f64", "rn ftz? sat|relu? f16|f16x2", "rn relu? bf16|bf16x2",
        "ROUND sat? f32 f16|bf16"]),
    ("sqrt", &["approx|ROUND ftz? f32", "ROUND f64"]),
    ("rcp", &["approx|ROUND ftz? f32", "ROUND f64", "approx ftz f64"]),
    ("rsqrt", &["approx ftz? f32|f64"]),
    ("sin cos lg2", &["approx ftz? f32"]),
    ("ex2", &["approx ftz? f32", "approx f16|f16x2", "approx ftz bf16|bf16x2"]),
    ("tanh", &["approx f32|f16|f16x2|bf16|bf16x2"]),
    ("copysign", &["f32|f64"]),
    ("testp", &["finite|infinite|notanumber f32|f64"]),
    // Comparisons and selections
    ("setp", &["COMPARE JOIN? INT|b16|b32|b64|f64", "COMPARE JOIN? ftz? f32|f16|f16x2", "COMPARE JOIN? bf16|bf16x2"]),
    ("set", &["COMPARE JOIN? ftz? u32|s32|f32 INT|b16|b32|b64|f32|f64",
        "COMPARE JOIN? ftz? f16|bf16 INT|b16|b32|b64|f16|bf16|f32|f64", "COMPARE JOIN? ftz? u16|s16|u32|s32 f16",
        "COMPARE JOIN? u16|s16|u32|s32 bf16", "COMPARE JOIN? ftz? f16x2|u32|s32 f16x2",
        "COMPARE JOIN? bf16x2|u32|s32 bf16x2"]),
    ("selp", &["INT|b16|b32|b64|f32|f64|f16|bf16"]),
    ("slct", &["INT|b16|b32|b64|f32|f64 s32", "ftz? INT|b16|b32|b64|f32|f64 f32"]),
    // Logic and bytes
    ("and or xor not", &["pred|b16|b32|b64"]),
    ("cnot", &["b16|b32|b64"]),
    ("shl", &["b16|b32|b64"]),
    ("shr", &["INT|b16|b32|b64"]),
    ("shf", &["l|r wrap|clamp b32"]),
    ("lop3", &["b32"]),
    ("prmt", &["b32", "b32 f4e|b4e|rc8|ecl|ecr|rc16"]),
    // Moves and conversions
    ("mov", &["pred|b8|b16|b32|b64|b128|INT|f16|bf16|f16x2|bf16x2|f32|f64"]),
    ("cvt", &["sat? BYTE|INT BYTE|INT", "IROUND ftz? sat? BYTE|INT f16|bf16|f32|f64", "ROUND sat? f16|bf16|f32|f64 BYTE|INT",
        "ROUND? IROUND? ftz? sat? f32|f64 f32|f64", "ROUND? ftz? sat? relu? satfinite? f16|bf16 f32|f64",
        "ftz? sat? f32|f64 f16|bf16", "ROUND? IROUND? sat? f16|bf16 f16|bf16",
        "rn|rz relu? satfinite? f16x2|bf16x2 f32"]),
    ("cvt.pack", &["sat u16|s16 s32", "sat u8|s8 s32 b32"]),
    ("cvta", &["to? SPACE u32|u64"]),
    ("isspacep", &["SPACE"]),
    // Memory
    ("ld", &["nc? SPACE? ORDER? CACHE? V? DATA", "weak? SPACE? CACHE? unified? V? DATA", "volatile SPACE? V? DATA",
        "mmio relaxed sys global? DATA", "SPACE? ORDER? b128", "nc? SPACE? CACHE? b128"]),
    ("ldu", &["global? V? DATA"]),
    ("st", &["weak? SPACE? CACHE? V? DATA", "volatile SPACE? V? DATA", "SPACE? ORDER? CACHE? V? DATA",
        "mmio relaxed sys global? DATA", "SPACE? ORDER? CACHE? b128"]),
    ("atom red", &["SPACE? ORDER? add L2::cache_hint? W|f32|f64",
        "SPACE? ORDER? add noftz L2::cache_hint? f16|f16x2|bf16|bf16x2",
        "SPACE? ORDER? min|max L2::cache_hint? W",
        "SPACE? ORDER? min|max noftz L2::cache_hint? f16|f16x2|bf16|bf16x2",
        "SPACE? ORDER? and|or|xor L2::cache_hint? b32|b64", "SPACE? ORDER? inc|dec L2::cache_hint? u32",
        "SPACE? ORDER? exch L2::cache_hint? b32|b64|W|f32", "SPACE? ORDER? cas L2::cache_hint? b16|b32|b64|W"]),
    ("tex", &["1d|2d|3d v4 u32|s32|f32|f16|f16x2 s32|f32"]),
    ("prefetch", &["global|local? L1|L2|L2::evict_last|L2::evict_normal", "param|const? tensormap"]),
    ("prefetchu", &["L1"]),
    ("discard", &["global? L2"]),
    ("applypriority", &["global? L2::evict_normal"]),
    ("createpolicy", &["fractional POLICY POLICY? b64",
        "range global? POLICY POLICY? b64",
        "cvt L2 b64"]),
    // Control
    ("bra", &["uni?"]),
    ("brx", &["idx uni?"]),
    ("call ret", &["uni?"]),
    ("exit trap brkpt pmevent", &["", "mask"]),
    ("bar", &["cta? sync|arrive", "cta? red popc u32", "cta? red and|or pred", "warp sync"]),
    ("barrier", &["cta? sync|arrive aligned?", "cta? red popc aligned? u32", "cta? red and|or aligned? pred",
        "cluster arrive relaxed|release? aligned?", "cluster wait acquire? aligned?"]),
    ("shfl", &["sync? up|down|bfly|idx b32"]),
    ("vote", &["sync? all|any|uni pred", "sync? ballot b32"]),
    ("match", &["any|all sync b32|b64"]),
    ("redux", &["sync add|min|max u32|s32", "sync and|or|xor b32"]),
    ("activemask", &["b32"]),
    ("membar", &["cta|gl|sys", "proxy alias|async"]),
    ("fence", &["sc|acq_rel|acquire|release? cta|cluster|gpu|sys", "proxy alias|async|async.global", "mbarrier_init release cluster",
        "proxy async global|shared|shared::cta|shared::cluster"]),
    ("nanosleep", &["u32"]),
    ("griddepcontrol", &["launch_dependents|wait"]),
    ("setmaxnreg", &["inc|dec sync aligned u32"]),
];

#[rustfmt::skip]
const GROUPS: &[(&str, &str)] = &[
    ("INT", "u16|s16|u32|s32|u64|s64"),
    ("W", "u32|s32|u64|s64"),
    ("BYTE", "u8|s8"),
    ("ROUND", "rn|rz|rm|rp"),
    ("IROUND", "rni|rzi|rmi|rpi"),
    ("COMPARE", "eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan"),
    ("JOIN", "and|or|xor"),
    ("SPACE", "global|const|shared|shared::cta|shared::cluster|local|param|param::entry|param::func"),
    ("POLICY", "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged"),
    ("V", "v2|v4|v8"),
    ("DATA", "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f16|bf16|f16x2|bf16x2|f32|f64"),
];

/// Several modifiers that may each be there or not.
#[rustfmt::skip]
const SERIES: &[(&str, &[&str])] = &[
    ("ORDER?", &["relaxed|acquire|release|acq_rel?", "cta|cluster|gpu|sys?"]),
    ("CACHE?", &["ca|cg|cs|lu|cv|wb|wt?",
        "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate?",
        "L2::evict_normal|L2::evict_first|L2::evict_last?", "L2::cache_hint?", "L2::64B|L2::128B|L2::256B?"]),
];

/// Whether an operation of this name may have these modifiers.
pub(super) fn allowed(root: &str, modifiers: &[&str]) -> bool {
    let packed = root == "cvt" && modifiers.first() == Some(&"pack");
    let (root, modifiers) = if packed { ("cvt.pack", &modifiers[1..]) } else { (root, modifiers) };
    let forms = FORMS.iter().find(|(names, _)| names.split(' ').any(|name| name == root));
    forms.is_some_and(|(_, forms)| forms.iter().any(|form| fits(form, modifiers)))
}

fn fits(form: &str, modifiers: &[&str]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for item in form.split(' ').filter(|item| !item.is_empty()) {
        match SERIES.iter().find(|(name, _)| *name == item) {
            Some((_, items)) => open.extend(*items),
            None => open.push(item),
        }
    }
    for modifier in modifiers {
        let is_type = Type::parse(modifier).is_some();
        let Some(at) = open.iter().position(|item| takes(item, modifier)) else { return false };
        // A type in front of this one cannot follow any more.
        if is_type && open[..at].iter().any(|item| !item.ends_with('?') && names_types(item)) {
            return false;
        }
        open.remove(at);
    }
    open.iter().all(|item| item.ends_with('?'))
}

fn names_types(item: &str) -> bool {
    words(item).any(|word| Type::parse(word).is_some())
}

fn takes(item: &str, modifier: &str) -> bool {
    words(item).any(|word| word == modifier)
}

fn words(item: &str) -> impl Iterator<Item = &str> {
    item.trim_end_matches('?').split('|').flat_map(move |word| {
        let found = GROUPS.iter().find(|(name, _)| *name == word).map(|(_, words)| *words);
        found.unwrap_or(word).split('|')
    })
}

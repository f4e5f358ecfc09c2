//! The driver API, described once.
//!
//! Each family file holds a macro with one line per function:
//!
//! ```text
//! cuMemcpyHtoDAsync_v2(dstDevice: CUdeviceptr = Writes(Len(ByteCount)),
//!     srcHost: *const c_void = Source(Len(ByteCount)), ByteCount: usize, hStream: CUstream)
//!     submit | cuMemcpyHtoDAsync_v2_ptsz => Submit(Copy);
//! ```
//!
//! It has the name (and its per-thread-stream twin, of the same signature), the parameters with their C types
//! and [roles](roles::Role), the [class](roles::Class), the replay [policy](roles::Policy) if it is not
//! `execute`, and the [effect](effect::Effect) if the rest does not imply it. Everything else (wrappers,
//! entry points, record layout, `dump`, replay thunks, the support matrix) walks these lines.

pub mod extra;
pub mod walk;
#[macro_use]
pub mod table;
pub mod attributes;
pub mod copies;
pub mod effect;
// Names of the driver: its header documents them.
#[allow(missing_docs)]
pub mod enums;
pub mod refusal;
pub mod results;
pub mod roles;
// Names of the driver: its header documents them.
#[allow(missing_docs)]
pub mod structs;
pub mod types;

pub use table::Function;

/// Hands the names of all families to a macro of the caller, which may then expand `trace::<family>!`.
#[macro_export]
macro_rules! for_each_family {
    ($with:ident) => {
        $with! {
            device context module memory memory_pool memory_virtual copy array launch stream event
            graph graph_node graph_exec endpoint external graphics gl no_prototype
        }
    };
}

macro_rules! families {
    ($($family:ident)*) => {
        $(
            #[allow(missing_docs, reason = "its items are a macro of the driver's functions and their table")]
            pub mod $family;
        )*

        const FAMILIES: &[&[Function]] = &[$($family::FUNCTIONS),*];
        const COUNT: usize = 0 $(+ $family::FUNCTIONS.len())*;

        /// The id of the first function of a family; the others follow in the order of its lines.
        pub const fn base(family: &str) -> u16 {
            let mut base = 0;
            $(
                if table::same(family, stringify!($family)) {
                    return base;
                }
                base += $family::FUNCTIONS.len() as u16;
            )*
            let _ = base;
            panic!("no such family")
        }
    };
}
for_each_family! { families }

/// Every function the driver exports, by id. Ids are this build's own: a file lists the names of the ids it
/// uses.
pub static FUNCTIONS: [Function; COUNT] = {
    let mut all = [FAMILIES[0][0]; COUNT];
    let (mut family, mut next) = (0, 0);
    while family < FAMILIES.len() {
        let mut line = 0;
        while line < FAMILIES[family].len() {
            all[next] = FAMILIES[family][line];
            line += 1;
            next += 1;
        }
        family += 1;
    }
    all
};

/// Their names, for constants.
pub const NAMES: [&str; COUNT] = {
    let mut names = [""; COUNT];
    let (mut family, mut next) = (0, 0);
    while family < FAMILIES.len() {
        let mut line = 0;
        while line < FAMILIES[family].len() {
            names[next] = FAMILIES[family][line].name;
            line += 1;
            next += 1;
        }
        family += 1;
    }
    names
};

/// The function of this name.
pub fn by_name(name: &str) -> Option<&'static Function> {
    use std::{collections::HashMap, sync::LazyLock};
    static INDEX: LazyLock<HashMap<&str, &Function>> =
        LazyLock::new(|| FUNCTIONS.iter().map(|f| (f.name, f)).collect());
    INDEX.get(name).copied()
}

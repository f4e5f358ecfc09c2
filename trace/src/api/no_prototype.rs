//! Exported names for which no public prototype is known. Their wrappers are tail jumps: a guessed arity
//! would corrupt the arguments that lie on the stack.

#[macro_export]
macro_rules! no_prototype {
    ($($with:tt)+) => {
        $($with)+! {
            "no_prototype" opaque;
            cuEGLApiInit cuMemGetAttribute cuMemGetAttribute_v2
        }
    };
}

describe_family!(no_prototype);

//! Exported names without a known public prototype. Their wrappers are tail jumps, because a guessed arity
//! would corrupt the arguments on the stack.

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

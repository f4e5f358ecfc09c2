use super::{Buffer, Loaded, compute};
use crate::ptx::exec::Fault;
use crate::ptx::inst::Op;
use crate::ptx::program::Layout;

/// A modifier that nobody knows, one that the operation does not have, and operations that are not there.
#[test]
fn what_is_not_simulated_fails_when_it_is_reached() {
    for operation in [
        "add.bogus.f32 %r0, %r1, %r2;",
        "add.rn.u32 %r0, %r1, %r2;",
        "ld.global.bogus.u32 %r0, [%d4];",
        "max.s16x2 %r0, %r1, %r2;",
        "frobnicate.u32 %r0, %r1;",
        "cvt.rs.f16x2.f32 %r0, %r1, %r2, %r3;",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];",
        "mov.u32 %r0, (1 << 4) | 3;",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d0, %d1}, {%d2}, {%d3}, {%d0, %d1};",
    ] {
        assert_eq!(compute(operation, "r0", [0; 3]), Err(Fault::NotSimulated), "{operation}");
        let unreached = format!("bra over; {operation} over: mov.u32 %r0, 7;");
        assert_eq!(compute(&unreached, "r0", [0; 3]), Ok(7), "{operation}");
    }
}

#[test]
fn clusters_of_several_blocks_are_not_simulated() {
    let kernel = |blocks: u32| {
        format!(
            ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out) .reqnctapercluster {blocks} {{\n\
             .reg .b64 %d<2>; .reg .b32 %r<4>; ld.param.u64 %d1, [out];\n\
             mov.u32 %r1, %clusterid.x; mov.u32 %r2, %nclusterid.x; mad.wide.u32 %d1, %r1, 8, %d1;\n\
             st.global.v2.u32 [%d1], {{%r1, %r2}}; ret; }}"
        )
    };
    let out = Buffer::from_values(&[9u32; 4]);
    let run = |blocks| Loaded::new(&[&kernel(blocks)]).run("k", [2, 1, 1], [1; 3], 0, &[&out]);
    assert_eq!(run(2), Err(Fault::NotSimulated));
    assert_eq!(run(1), Ok(()));
    assert_eq!(out.get(), [0, 2, 1, 2]);
}

/// What compilers wrote for the kernels here is known, every operation of it.
#[test]
fn committed_kernels_have_nothing_refused() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/apps/kernels");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let Ok(program) = Layout::new([text.as_str()]).and_then(|layout| layout.program(0)) else { continue };
        for instruction in program.code.iter().flat_map(|code| &code.instructions) {
            assert!(!matches!(instruction.op, Op::Refused(_)), "{}: {:?}", path.display(), instruction.op);
        }
        seen += 1;
    }
    assert!(seen > 10, "{seen} kernels");
}

//! The special registers.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Special {
    ThreadIndex(u8),
    BlockSize(u8),
    BlockIndex(u8),
    GridSize(u8),
    ClusterIndex(u8),
    Clusters(u8),
    BlockInCluster(u8),
    ClusterSize(u8),
    ClusterRank,
    ClusterBlocks,
    Lane,
    Warp,
    Warps,
    LaneMaskEqual,
    LaneMaskLess,
    LaneMaskLessEqual,
    LaneMaskGreater,
    LaneMaskGreaterEqual,
    Clock,
    Nanoseconds,
    GridId,
    DynamicShared,
    TotalShared,
    /// %envreg1 and %envreg2: the upper and lower half of the address of a cooperative grid's barrier.
    Workspace(u8),
    Zero,
    One,
}

impl Special {
    /// The register of a name, percent sign included.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix('%')?;
        if let Some((register, axis)) = rest.split_once('.') {
            let axis = match axis {
                "x" => 0,
                "y" => 1,
                "z" => 2,
                _ => return None,
            };
            return Some(match register {
                "tid" => Special::ThreadIndex(axis),
                "ntid" => Special::BlockSize(axis),
                "ctaid" => Special::BlockIndex(axis),
                "nctaid" => Special::GridSize(axis),
                "clusterid" => Special::ClusterIndex(axis),
                "nclusterid" => Special::Clusters(axis),
                "cluster_ctaid" => Special::BlockInCluster(axis),
                "cluster_nctaid" => Special::ClusterSize(axis),
                _ => return None,
            });
        }
        Some(match rest {
            "laneid" => Special::Lane,
            "warpid" => Special::Warp,
            "nwarpid" => Special::Warps,
            "lanemask_eq" => Special::LaneMaskEqual,
            "lanemask_lt" => Special::LaneMaskLess,
            "lanemask_le" => Special::LaneMaskLessEqual,
            "lanemask_gt" => Special::LaneMaskGreater,
            "lanemask_ge" => Special::LaneMaskGreaterEqual,
            "clock" | "clock64" => Special::Clock,
            "globaltimer" | "globaltimer_lo" => Special::Nanoseconds,
            "clock_hi" | "globaltimer_hi" | "smid" => Special::Zero,
            "nsmid" => Special::One,
            "cluster_ctarank" => Special::ClusterRank,
            "cluster_nctarank" => Special::ClusterBlocks,
            "envreg1" => Special::Workspace(1),
            "envreg2" => Special::Workspace(2),
            "gridid" => Special::GridId,
            "dynamic_smem_size" => Special::DynamicShared,
            "total_smem_size" | "aggr_smem_size" => Special::TotalShared,
            _ => return None,
        })
    }
}

//! The exported functions, in files by family. Each is declared once, in an `entries!` block, which also
//! lists it for `cuGetProcAddress`. May import everything; no other folder imports it.

mod context;
mod core_dump;
mod cupti;
mod declare;
mod device;
mod event;
mod function;
mod global;
mod graphs;
mod green;
mod hidden;
mod launch;
mod library;
mod link;
mod memory;
mod module;
mod occupancy;
mod older;
mod older_launch;
mod procaddress;
mod reference;
mod stream;
mod values;

use declare::Entry;

/// Everything exported.
pub(crate) fn all() -> Vec<Entry> {
    let lists = [
        memory::array::list,
        memory::batch::list,
        graphs::capture::list,
        context::list,
        memory::copy::list,
        core_dump::list,
        device::list,
        event::list,
        function::list,
        global::list,
        graphs::graph::list,
        graphs::any::list,
        graphs::attribute::list,
        graphs::exec::list,
        graphs::memory::list,
        graphs::node::list,
        green::list,
        memory::hint::list,
        memory::host::list,
        memory::ipc::list,
        launch::list,
        library::list,
        link::list,
        memory::allocate::list,
        memory::mipmap::list,
        module::list,
        occupancy::list,
        older::list,
        older_launch::list,
        memory::pointer::list,
        memory::pool::list,
        procaddress::list,
        reference::list,
        memory::set::list,
        stream::list,
        memory::tensor_map::list,
        memory::texture::list,
        graphs::user_object::list,
        values::list,
        memory::virt::list,
    ];
    lists.iter().flat_map(|list| list()).collect()
}

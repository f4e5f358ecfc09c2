//! The exported functions, in files by family. Each is declared once, in an `entries!` block, which also
//! lists it for `cuGetProcAddress`.

mod array;
mod batch;
mod capture;
mod context;
mod copy;
mod core_dump;
mod cupti;
mod declare;
mod device;
mod event;
mod function;
mod global;
mod graph;
mod graph_any;
mod graph_attribute;
mod graph_exec;
mod graph_memory;
mod graph_node;
mod graph_parameters;
mod green;
mod hidden;
mod hint;
mod host;
mod ipc;
mod launch;
mod library;
mod link;
mod memory;
mod mipmap;
mod module;
mod occupancy;
mod older;
mod older_launch;
mod pointer;
mod pool;
mod procaddress;
mod reference;
mod set;
pub mod since;
mod stream;
pub mod structs;
mod tensor_map;
mod texture;
mod user_object;
mod values;
mod virt;

use declare::Entry;

/// Everything exported.
pub fn all() -> Vec<Entry> {
    let lists = [
        array::list,
        batch::list,
        capture::list,
        context::list,
        copy::list,
        core_dump::list,
        device::list,
        event::list,
        function::list,
        global::list,
        graph::list,
        graph_any::list,
        graph_attribute::list,
        graph_exec::list,
        graph_memory::list,
        graph_node::list,
        green::list,
        hint::list,
        host::list,
        ipc::list,
        launch::list,
        library::list,
        link::list,
        memory::list,
        mipmap::list,
        module::list,
        occupancy::list,
        older::list,
        older_launch::list,
        pointer::list,
        pool::list,
        procaddress::list,
        reference::list,
        set::list,
        stream::list,
        tensor_map::list,
        texture::list,
        user_object::list,
        values::list,
        virt::list,
    ];
    lists.iter().flat_map(|list| list()).collect()
}

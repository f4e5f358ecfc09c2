//! Stream capture.

use std::sync::Arc;

use crate::abi::code::{Code, Result};
use crate::abi::{Handle, Input, NullStream, Out};
use crate::entry::declare::entries;
use crate::graphs::capture;
use crate::streams::stream::{self, Lane, Stream};

const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

/// Where a query's answers go.
struct Answers {
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<Handle>,
    dependencies: Out<*const Handle>,
    edges: Out<*const u8>,
    count: Out<usize>,
}

const fn nowhere<T>() -> Out<T> {
    Out::from_raw(std::ptr::null_mut())
}

fn query(stream: &Arc<Stream>, to: Answers) -> Result {
    let part = stream.part.lock();
    let Some(part) = &*part else { return to.status.set(NONE) };
    let status = if part.capture.check().is_ok() { ACTIVE } else { INVALIDATED };
    to.status.set(status)?;
    to.id.set_if(part.capture.id);
    if status == ACTIVE {
        to.graph.set_if(part.capture.graph);
        // Good until the stream's next capture call: the vector is replaced, never changed.
        to.dependencies.set_if(part.tail.as_ptr());
        to.edges.set_if(std::ptr::null());
        to.count.set_if(part.tail.len());
    }
    Ok(())
}

fn update(stream: &Arc<Stream>, nodes: Input<Handle>, count: usize, flags: u32) -> Result {
    let mut part = stream.part.lock();
    let part = part.as_mut().ok_or(Code::ILLEGAL_STATE)?;
    part.capture.check()?;
    let nodes = nodes.all(count)?;
    match flags {
        0 => part.join(&nodes),
        1 => part.tail = Arc::new(nodes),
        _ => return Err(Code::INVALID_VALUE),
    }
    Ok(())
}

fn find(hstream: Handle, null: NullStream) -> Result<Arc<Stream>> {
    stream::find(hstream, null)
}

entries! {
    fn cuStreamBeginCapture / cuStreamBeginCapture_ptsz [null] (hstream: Handle) {
        capture::begin(&find(hstream, null)?, 0, None)
    }

    fn cuStreamBeginCapture_v2 / cuStreamBeginCapture_v2_ptsz [null] (hstream: Handle, mode: u32) {
        capture::begin(&find(hstream, null)?, mode, None)
    }

    fn cuStreamBeginCaptureToGraph / cuStreamBeginCaptureToGraph_ptsz [null] (
        hstream: Handle, hgraph: Handle, after: Input<Handle>, _edges: Input<u64>, count: usize, mode: u32,
    ) {
        capture::begin(&find(hstream, null)?, mode, Some((hgraph, after.all(count)?)))
    }

    fn cuStreamEndCapture / cuStreamEndCapture_ptsz [null] (hstream: Handle, hgraph: Out<Handle>) {
        if hgraph.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        hgraph.set(0)?;
        hgraph.set(capture::end(&find(hstream, null)?)?)
    }

    fn cuStreamIsCapturing / cuStreamIsCapturing_ptsz [null] (hstream: Handle, status: Out<u32>) {
        let to = Answers {
            status, id: nowhere(), graph: nowhere(), dependencies: nowhere(), edges: nowhere(), count: nowhere(),
        };
        let stream = find(hstream, null)?;
        if stream.lane == Lane::Legacy {
            capture::ask_legacy(stream.context_handle)?;
        }
        query(&stream, to)
    }

    fn cuStreamGetCaptureInfo / cuStreamGetCaptureInfo_ptsz [null] (hstream: Handle, status: Out<u32>, id: Out<u64>) {
        let to = Answers { status, id, graph: nowhere(), dependencies: nowhere(), edges: nowhere(), count: nowhere() };
        query(&find(hstream, null)?, to)
    }

    fn cuStreamGetCaptureInfo_v2 / cuStreamGetCaptureInfo_v2_ptsz [null] (
        hstream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, dependencies: Out<*const Handle>,
        count: Out<usize>,
    ) {
        query(&find(hstream, null)?, Answers { status, id, graph, dependencies, edges: nowhere(), count })
    }

    fn cuStreamGetCaptureInfo_v3 / cuStreamGetCaptureInfo_v3_ptsz [null] (
        hstream: Handle, status: Out<u32>, id: Out<u64>, graph: Out<Handle>, dependencies: Out<*const Handle>,
        edges: Out<*const u8>, count: Out<usize>,
    ) {
        query(&find(hstream, null)?, Answers { status, id, graph, dependencies, edges, count })
    }

    fn cuStreamUpdateCaptureDependencies / cuStreamUpdateCaptureDependencies_ptsz [null] (
        hstream: Handle, nodes: Input<Handle>, count: usize, flags: u32,
    ) {
        update(&find(hstream, null)?, nodes, count, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2 / cuStreamUpdateCaptureDependencies_v2_ptsz [null] (
        hstream: Handle, nodes: Input<Handle>, _edges: Input<u64>, count: usize, flags: u32,
    ) {
        update(&find(hstream, null)?, nodes, count, flags)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) {
        let before = capture::exchange_mode(mode.get()?)?;
        mode.set(before)
    }
}

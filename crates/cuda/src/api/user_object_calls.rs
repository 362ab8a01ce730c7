//! Entry points for objects of the program that graphs keep.
#![expect(unsafe_code, reason = "exported names")]

use crate::api::graph_parameters::graph_of;
use crate::api::table::entry_points;
use crate::device::handles::Handle;
use crate::device::state::device;
use crate::device::user_objects::Gone;
use crate::device::work::HostFunction;
use crate::program::pointers::Out;
use crate::status::Status;

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which a program must name.
const NO_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the graph gets references of the program.
const MOVE: u32 = 1;

/// A number of references, from 1 to `INT_MAX`.
fn references(count: u32) -> Result<u32, Status> {
    if (1..=i32::MAX.cast_unsigned()).contains(&count) { Ok(count) } else { Err(Status::INVALID_VALUE) }
}

fn object_of(handle: u64) -> Result<u64, Status> {
    Handle::UserObject.index(handle).map(|number| number as u64).ok_or(Status::INVALID_VALUE)
}

entry_points! {
    USER_OBJECT, USER_OBJECT_CALLS;

    [cudaUserObjectCreate: (Primary, zeros INVALID_VALUE, valid INVALID_VALUE)]
    [cuUserObjectCreate: (Init, zeros INVALID_VALUE, valid INVALID_VALUE, since 11_030)]
    fn (object: Out<u64>, data: u64, destroy: HostFunction, count: u32, flags: u32) {
        if destroy.is_none() || flags != NO_SYNC {
            return Err(Status::INVALID_VALUE);
        }
        let made = device()?.graphs.objects.create(destroy, data, references(count)?);
        object.set(Handle::UserObject.make(made as usize))
    }
    [cudaUserObjectRetain: (Primary, zeros INVALID_VALUE, valid INVALID_VALUE)]
    [cuUserObjectRetain: (Init, zeros INVALID_VALUE, valid INVALID_VALUE, since 11_030)]
    fn (object: u64, count: u32) { device()?.graphs.objects.retain(object_of(object)?, references(count)?) }
    [cudaUserObjectRelease: (Primary, zeros INVALID_VALUE, valid INVALID_VALUE)]
    [cuUserObjectRelease: (Init, zeros INVALID_VALUE, valid INVALID_VALUE, since 11_030)]
    fn (object: u64, count: u32) {
        let gone = device()?.graphs.objects.release(object_of(object)?, references(count)?.into())?;
        gone.into_iter().for_each(Gone::destroy);
        Ok(())
    }
    [cudaGraphRetainUserObject: (Primary, zeros INVALID_VALUE, valid INVALID_VALUE)]
    [cuGraphRetainUserObject: (Init, zeros INVALID_VALUE, valid INVALID_VALUE, since 11_030)]
    fn (graph: u64, object: u64, count: u32, flags: u32) {
        if flags > MOVE {
            return Err(Status::INVALID_VALUE);
        }
        let graph = graph_of(graph)?;
        let mut device = device()?;
        device.graphs.nodes(graph)?;
        device.graphs.objects.give(graph, object_of(object)?, references(count)?, flags == MOVE)
    }
    [cudaGraphReleaseUserObject: (Primary, zeros INVALID_VALUE, valid INVALID_VALUE)]
    [cuGraphReleaseUserObject: (Init, zeros INVALID_VALUE, valid INVALID_VALUE, since 11_030)]
    fn (graph: u64, object: u64, count: u32) {
        let gone = device()?.graphs.objects.take(graph_of(graph)?, object_of(object)?, references(count)?)?;
        gone.into_iter().for_each(Gone::destroy);
        Ok(())
    }
}

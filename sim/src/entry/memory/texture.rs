//! Texture objects.

use crate::abi::code::Code;
use crate::abi::structs::{ResourceDescriptor, TextureDescriptor, ViewDescriptor};
use crate::abi::{Input, Out};
use crate::entry::declare::entries;
use crate::objects::texture;
use crate::streams::context;

entries! {
    fn cuTexObjectCreate(
        made: Out<u64>, resource: Input<ResourceDescriptor>, sampling: Input<TextureDescriptor>, view: Input<ViewDescriptor>,
    ) {
        let context = context::usable()?;
        if made.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        made.set(texture::create(context.id, resource.get()?, sampling.get()?, view.get().ok())?)
    }

    fn cuTexObjectDestroy(object: u64) {
        texture::destroy(context::current()?.id, object);
        Ok(())
    }

    fn cuTexObjectGetResourceDesc(resource: Out<ResourceDescriptor>, object: u64) {
        resource.set(texture::find(context::current()?.id, object)?.resource)
    }

    fn cuTexObjectGetTextureDesc(sampling: Out<TextureDescriptor>, object: u64) {
        sampling.set(texture::find(context::current()?.id, object)?.texture)
    }

    fn cuTexObjectGetResourceViewDesc(view: Out<ViewDescriptor>, object: u64) {
        view.set(texture::find(context::current()?.id, object)?.view.ok_or(Code::INVALID_VALUE)?)
    }
}

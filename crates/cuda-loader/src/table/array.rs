//! Arrays, textures and surfaces, which `cust` refers to even where nobody uses them.

forward! {
    fn cuMemcpyDtoA_v2(dst_array: CUarray, dst_offset: usize, src_device: CUdeviceptr, byte_count: usize);
    fn cuMemcpyAtoD_v2(dst_device: CUdeviceptr, src_array: CUarray, src_offset: usize, byte_count: usize);
    fn cuMemcpyHtoA_v2(dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize);
    fn cuMemcpyAtoH_v2(dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize);
    fn cuMemcpyAtoA_v2(dst_array: CUarray, dst_offset: usize, src_array: CUarray, src_offset: usize, byte_count: usize);
    fn cuMemcpyHtoAAsync_v2(dst_array: CUarray, dst_offset: usize, src_host: *const c_void, byte_count: usize, h_stream: CUstream);
    fn cuMemcpyAtoHAsync_v2(dst_host: *mut c_void, src_array: CUarray, src_offset: usize, byte_count: usize, h_stream: CUstream);
    fn cuArrayCreate_v2(p_handle: *mut CUarray, p_allocate_array: *const CUDA_ARRAY_DESCRIPTOR);
    fn cuArrayGetDescriptor_v2(p_array_descriptor: *mut CUDA_ARRAY_DESCRIPTOR, h_array: CUarray);
    fn cuArrayDestroy(h_array: CUarray);
    fn cuArray3DCreate_v2(p_handle: *mut CUarray, p_allocate_array: *const CUDA_ARRAY3D_DESCRIPTOR);
    fn cuArray3DGetDescriptor_v2(p_array_descriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, h_array: CUarray);
    fn cuMipmappedArrayCreate(p_handle: *mut CUmipmappedArray, p_mipmapped_array_desc: *const CUDA_ARRAY3D_DESCRIPTOR, num_mipmap_levels: c_uint);
    fn cuMipmappedArrayGetLevel(p_level_array: *mut CUarray, h_mipmapped_array: CUmipmappedArray, level: c_uint);
    fn cuMipmappedArrayDestroy(h_mipmapped_array: CUmipmappedArray);
    fn cuTexObjectCreate(p_tex_object: *mut CUtexObject, p_res_desc: *const CUDA_RESOURCE_DESC, p_tex_desc: *const CUDA_TEXTURE_DESC, p_res_view_desc: *const CUDA_RESOURCE_VIEW_DESC);
    fn cuTexObjectDestroy(tex_object: CUtexObject);
    fn cuTexObjectGetResourceDesc(p_res_desc: *mut CUDA_RESOURCE_DESC, tex_object: CUtexObject);
    fn cuTexObjectGetTextureDesc(p_tex_desc: *mut CUDA_TEXTURE_DESC, tex_object: CUtexObject);
    fn cuTexObjectGetResourceViewDesc(p_res_view_desc: *mut CUDA_RESOURCE_VIEW_DESC, tex_object: CUtexObject);
    fn cuSurfObjectCreate(p_surf_object: *mut CUsurfObject, p_res_desc: *const CUDA_RESOURCE_DESC);
    fn cuSurfObjectDestroy(surf_object: CUsurfObject);
    fn cuSurfObjectGetResourceDesc(p_res_desc: *mut CUDA_RESOURCE_DESC, surf_object: CUsurfObject);
}

//! Graphs: building, instantiating, launching.

forward! {
    fn cuGraphCreate(ph_graph: *mut CUgraph, flags: c_uint);
    fn cuGraphAddKernelNode(ph_graph_node: *mut CUgraphNode, h_graph: CUgraph, dependencies: *const CUgraphNode, num_dependencies: usize, node_params: *const CUDA_KERNEL_NODE_PARAMS);
    fn cuGraphKernelNodeGetParams(h_node: CUgraphNode, node_params: *mut CUDA_KERNEL_NODE_PARAMS);
    fn cuGraphNodeGetType(h_node: CUgraphNode, type_: *mut CUgraphNodeType);
    fn cuGraphGetNodes(h_graph: CUgraph, nodes: *mut CUgraphNode, num_nodes: *mut usize);
    fn cuGraphGetEdges(h_graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, num_edges: *mut usize);
    fn cuGraphInstantiateWithFlags(ph_graph_exec: *mut CUgraphExec, h_graph: CUgraph, flags: c_ulonglong);
    fn cuGraphLaunch(h_graph_exec: CUgraphExec, h_stream: CUstream);
    fn cuGraphExecDestroy(h_graph_exec: CUgraphExec);
    fn cuGraphDestroy(h_graph: CUgraph);
    fn cuGraphDebugDotPrint(h_graph: CUgraph, path: *const c_char, flags: c_uint);
}

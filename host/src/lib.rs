//! The machine around us: network namespaces, links, neighbours, CPUs.

/* Transport headers of version 1. */
#include "driver.h"

LISTS(v1, xdr_rdma_segment, xdr_read_chunk, xdr_read_list, xdr_write_chunk, xdr_write_list,
    entry, next, position, target, handle, length, offset)

void
get1(rdma_msg *m)
{
	m->rdma_xid = num();
	m->rdma_vers = num();
	m->rdma_credit = num();
	m->rdma_body.proc = (rdma_proc)num();
	switch (m->rdma_body.proc) {
	case RDMA_MSG: {
		rpc_rdma_header *h = &m->rdma_body.rdma_body_u.rdma_msg;
		v1_get_lists(&h->rdma_reads, &h->rdma_writes, &h->rdma_reply);
		break;
	}
	case RDMA_NOMSG: {
		rpc_rdma_header_nomsg *h = &m->rdma_body.rdma_body_u.rdma_nomsg;
		v1_get_lists(&h->rdma_reads, &h->rdma_writes, &h->rdma_reply);
		break;
	}
	case RDMA_MSGP: {
		rpc_rdma_header_padded *h = &m->rdma_body.rdma_body_u.rdma_msgp;
		h->rdma_align = num();
		h->rdma_thresh = num();
		v1_get_lists(&h->rdma_reads, &h->rdma_writes, &h->rdma_reply);
		break;
	}
	case RDMA_DONE:
		break;
	case RDMA_ERROR: {
		rpc_rdma_error *e = &m->rdma_body.rdma_body_u.rdma_error;
		e->err = (rpc_rdma_errcode)num();
		if (e->err == ERR_VERS) {
			e->rpc_rdma_error_u.range.rdma_vers_low = num();
			e->rpc_rdma_error_u.range.rdma_vers_high = num();
		}
		break;
	}
	}
}

void
put1(rdma_msg *m)
{
	put(m->rdma_xid);
	put(m->rdma_vers);
	put(m->rdma_credit);
	put(m->rdma_body.proc);
	switch (m->rdma_body.proc) {
	case RDMA_MSG: {
		rpc_rdma_header *h = &m->rdma_body.rdma_body_u.rdma_msg;
		v1_put_lists(h->rdma_reads, h->rdma_writes, h->rdma_reply);
		break;
	}
	case RDMA_NOMSG: {
		rpc_rdma_header_nomsg *h = &m->rdma_body.rdma_body_u.rdma_nomsg;
		v1_put_lists(h->rdma_reads, h->rdma_writes, h->rdma_reply);
		break;
	}
	case RDMA_MSGP: {
		rpc_rdma_header_padded *h = &m->rdma_body.rdma_body_u.rdma_msgp;
		put(h->rdma_align);
		put(h->rdma_thresh);
		v1_put_lists(h->rdma_reads, h->rdma_writes, h->rdma_reply);
		break;
	}
	case RDMA_DONE:
		break;
	case RDMA_ERROR: {
		rpc_rdma_error *e = &m->rdma_body.rdma_body_u.rdma_error;
		put(e->err);
		if (e->err == ERR_VERS) {
			put(e->rpc_rdma_error_u.range.rdma_vers_low);
			put(e->rpc_rdma_error_u.range.rdma_vers_high);
		}
		break;
	}
	}
}

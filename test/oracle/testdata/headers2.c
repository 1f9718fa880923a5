/* Transport headers of version 2. */
#include "driver.h"

LISTS(v2, rpcrdma2_segment, rpcrdma2_read_segment, rpcrdma2_read_list, rpcrdma2_write_chunk,
    rpcrdma2_write_list, rdma_entry, rdma_next, rdma_position, rdma_target, rdma_handle,
    rdma_length, rdma_offset)

static void
get_set(rpcrdma2_propset *s)
{
	u_int i;

	s->rpcrdma2_propset_len = num();
	s->rpcrdma2_propset_val = mem(s->rpcrdma2_propset_len * sizeof(rpcrdma2_propval));
	for (i = 0; i < s->rpcrdma2_propset_len; i++) {
		rpcrdma2_propval *v = &s->rpcrdma2_propset_val[i];

		v->rdma_which = num();
		v->rdma_data.rdma_data_val = unhex(word(), &v->rdma_data.rdma_data_len);
	}
}

static void
put_set(rpcrdma2_propset *s)
{
	u_int i;

	put(s->rpcrdma2_propset_len);
	for (i = 0; i < s->rpcrdma2_propset_len; i++) {
		rpcrdma2_propval *v = &s->rpcrdma2_propset_val[i];

		put(v->rdma_which);
		puthex(v->rdma_data.rdma_data_val, v->rdma_data.rdma_data_len);
	}
}

static void
get_subset(rpcrdma2_propsubset *s)
{
	u_int i;

	s->rpcrdma2_propsubset_len = num();
	s->rpcrdma2_propsubset_val = mem(s->rpcrdma2_propsubset_len * sizeof(uint32));
	for (i = 0; i < s->rpcrdma2_propsubset_len; i++)
		s->rpcrdma2_propsubset_val[i] = num();
}

static void
put_subset(rpcrdma2_propsubset *s)
{
	u_int i;

	put(s->rpcrdma2_propsubset_len);
	for (i = 0; i < s->rpcrdma2_propsubset_len; i++)
		put(s->rpcrdma2_propsubset_val[i]);
}

static void
get_lists2(rpcrdma2_chunk_lists *l)
{
	l->rdma_direction = (rpcrdma2_direction)num();
	l->rdma_inv_handle = num();
	v2_get_lists(&l->rdma_reads, &l->rdma_writes, &l->rdma_reply);
}

static void
put_lists2(rpcrdma2_chunk_lists *l)
{
	put(l->rdma_direction);
	put(l->rdma_inv_handle);
	v2_put_lists(l->rdma_reads, l->rdma_writes, l->rdma_reply);
}

static void
get_error2(rpcrdma2_error *e)
{
	e->rdma_err = (rpcrdma2_errcode)num();
	switch (e->rdma_err) {
	case RDMA2_ERR_VERS:
		e->rpcrdma2_error_u.rdma_vrange.rdma_vers_low = num();
		e->rpcrdma2_error_u.rdma_vrange.rdma_vers_high = num();
		break;
	case RDMA2_ERR_READ_CHUNKS:
		e->rpcrdma2_error_u.rdma_max_read_chunks = num();
		break;
	case RDMA2_ERR_WRITE_CHUNKS:
		e->rpcrdma2_error_u.rdma_max_write_chunks = num();
		break;
	case RDMA2_ERR_SEGMENTS:
		e->rpcrdma2_error_u.rdma_max_segments = num();
		break;
	case RDMA2_ERR_WRITE_RESOURCE:
		e->rpcrdma2_error_u.rdma_writers.rdma_chunk_index = num();
		e->rpcrdma2_error_u.rdma_writers.rdma_length_needed = num();
		break;
	case RDMA2_ERR_REPLY_RESOURCE:
		e->rpcrdma2_error_u.rdma_length_needed = num();
		break;
	default:
		break;
	}
}

static void
put_error2(rpcrdma2_error *e)
{
	put(e->rdma_err);
	switch (e->rdma_err) {
	case RDMA2_ERR_VERS:
		put(e->rpcrdma2_error_u.rdma_vrange.rdma_vers_low);
		put(e->rpcrdma2_error_u.rdma_vrange.rdma_vers_high);
		break;
	case RDMA2_ERR_READ_CHUNKS:
		put(e->rpcrdma2_error_u.rdma_max_read_chunks);
		break;
	case RDMA2_ERR_WRITE_CHUNKS:
		put(e->rpcrdma2_error_u.rdma_max_write_chunks);
		break;
	case RDMA2_ERR_SEGMENTS:
		put(e->rpcrdma2_error_u.rdma_max_segments);
		break;
	case RDMA2_ERR_WRITE_RESOURCE:
		put(e->rpcrdma2_error_u.rdma_writers.rdma_chunk_index);
		put(e->rpcrdma2_error_u.rdma_writers.rdma_length_needed);
		break;
	case RDMA2_ERR_REPLY_RESOURCE:
		put(e->rpcrdma2_error_u.rdma_length_needed);
		break;
	default:
		break;
	}
}

void
get2(rpcrdma2_xprt_hdr *m)
{
	rpcrdma2_body *b = &m->rdma_body;

	m->rdma_xid = num();
	m->rdma_vers = num();
	m->rdma_credit = num();
	b->rdma_proc = (rpcrdma2_proc)num();
	switch (b->rdma_proc) {
	case RDMA2_MSG:
		get_lists2(&b->rpcrdma2_body_u.rdma_msg);
		break;
	case RDMA2_NOMSG:
		get_lists2(&b->rpcrdma2_body_u.rdma_nomsg);
		break;
	case RDMA2_ERROR:
		get_error2(&b->rpcrdma2_body_u.rdma_error);
		break;
	case RDMA2_OPTIONAL: {
		rpcrdma2_optional *o = &b->rpcrdma2_body_u.rdma_optional;
		o->rdma_optdir = (rpcrdma2_direction)num();
		o->rdma_opttype = num();
		o->rdma_optinfo.rdma_optinfo_val = unhex(word(), &o->rdma_optinfo.rdma_optinfo_len);
		break;
	}
	case RDMA2_CONNPROP:
		get_set(&b->rpcrdma2_body_u.rdma_connprop.rdma_start);
		get_subset(&b->rpcrdma2_body_u.rdma_connprop.rdma_nochg);
		break;
	case RDMA2_REQPROP:
		get_set(&b->rpcrdma2_body_u.rdma_reqprop.rdma_want);
		break;
	case RDMA2_RESPROP:
		get_subset(&b->rpcrdma2_body_u.rdma_resprop.rdma_done);
		get_subset(&b->rpcrdma2_body_u.rdma_resprop.rdma_rejected);
		get_set(&b->rpcrdma2_body_u.rdma_resprop.rdma_other);
		break;
	case RDMA2_UPDPROP:
		get_set(&b->rpcrdma2_body_u.rdma_updprop.rdma_now);
		break;
	}
}

void
put2(rpcrdma2_xprt_hdr *m)
{
	rpcrdma2_body *b = &m->rdma_body;

	put(m->rdma_xid);
	put(m->rdma_vers);
	put(m->rdma_credit);
	put(b->rdma_proc);
	switch (b->rdma_proc) {
	case RDMA2_MSG:
		put_lists2(&b->rpcrdma2_body_u.rdma_msg);
		break;
	case RDMA2_NOMSG:
		put_lists2(&b->rpcrdma2_body_u.rdma_nomsg);
		break;
	case RDMA2_ERROR:
		put_error2(&b->rpcrdma2_body_u.rdma_error);
		break;
	case RDMA2_OPTIONAL: {
		rpcrdma2_optional *o = &b->rpcrdma2_body_u.rdma_optional;
		put(o->rdma_optdir);
		put(o->rdma_opttype);
		puthex(o->rdma_optinfo.rdma_optinfo_val, o->rdma_optinfo.rdma_optinfo_len);
		break;
	}
	case RDMA2_CONNPROP:
		put_set(&b->rpcrdma2_body_u.rdma_connprop.rdma_start);
		put_subset(&b->rpcrdma2_body_u.rdma_connprop.rdma_nochg);
		break;
	case RDMA2_REQPROP:
		put_set(&b->rpcrdma2_body_u.rdma_reqprop.rdma_want);
		break;
	case RDMA2_RESPROP:
		put_subset(&b->rpcrdma2_body_u.rdma_resprop.rdma_done);
		put_subset(&b->rpcrdma2_body_u.rdma_resprop.rdma_rejected);
		put_set(&b->rpcrdma2_body_u.rdma_resprop.rdma_other);
		break;
	case RDMA2_UPDPROP:
		put_set(&b->rpcrdma2_body_u.rdma_updprop.rdma_now);
		break;
	}
}

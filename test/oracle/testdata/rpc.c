/* RPC headers as libtirpc has them. */
#include "driver.h"

static void
get_auth(struct opaque_auth *a)
{
	a->oa_flavor = (enum_t)num();
	a->oa_base = unhex(word(), &a->oa_length);
}

static void
put_auth(struct opaque_auth *a)
{
	put((u_int)a->oa_flavor);
	puthex(a->oa_base, a->oa_length);
}

void
get_call(struct rpc_msg *m)
{
	m->rm_direction = CALL;
	m->rm_xid = num();
	m->rm_call.cb_rpcvers = RPC_MSG_VERSION;
	m->rm_call.cb_prog = num();
	m->rm_call.cb_vers = num();
	m->rm_call.cb_proc = num();
	get_auth(&m->rm_call.cb_cred);
	get_auth(&m->rm_call.cb_verf);
}

void
put_call(struct rpc_msg *m)
{
	put(m->rm_xid);
	put(m->rm_call.cb_prog);
	put(m->rm_call.cb_vers);
	put(m->rm_call.cb_proc);
	put_auth(&m->rm_call.cb_cred);
	put_auth(&m->rm_call.cb_verf);
}

void
get_reply(struct rpc_msg *m)
{
	m->rm_direction = REPLY;
	m->rm_xid = num();
	m->rm_reply.rp_stat = (enum reply_stat)num();
	if (m->rm_reply.rp_stat == MSG_ACCEPTED) {
		get_auth(&m->acpted_rply.ar_verf);
		m->acpted_rply.ar_stat = (enum accept_stat)num();
		if (m->acpted_rply.ar_stat == PROG_MISMATCH) {
			m->acpted_rply.ar_vers.low = num();
			m->acpted_rply.ar_vers.high = num();
		}
		m->acpted_rply.ar_results.proc = (xdrproc_t)xdr_void;
		return;
	}
	m->rjcted_rply.rj_stat = (enum reject_stat)num();
	if (m->rjcted_rply.rj_stat == RPC_MISMATCH) {
		m->rjcted_rply.rj_vers.low = num();
		m->rjcted_rply.rj_vers.high = num();
	} else {
		m->rjcted_rply.rj_why = (enum auth_stat)num();
	}
}

void
put_reply(struct rpc_msg *m)
{
	put(m->rm_xid);
	put(m->rm_reply.rp_stat);
	if (m->rm_reply.rp_stat == MSG_ACCEPTED) {
		put_auth(&m->acpted_rply.ar_verf);
		put(m->acpted_rply.ar_stat);
		if (m->acpted_rply.ar_stat == PROG_MISMATCH) {
			put((u_int)m->acpted_rply.ar_vers.low);
			put((u_int)m->acpted_rply.ar_vers.high);
		}
		return;
	}
	put(m->rjcted_rply.rj_stat);
	if (m->rjcted_rply.rj_stat == RPC_MISMATCH) {
		put((u_int)m->rjcted_rply.rj_vers.low);
		put((u_int)m->rjcted_rply.rj_vers.high);
	} else {
		put(m->rjcted_rply.rj_why);
	}
}

void
get_sys(struct authunix_parms *p)
{
	u_int i, n;

	p->aup_time = num();
	p->aup_machname = unhex(word(), &n);
	p->aup_uid = num();
	p->aup_gid = num();
	p->aup_len = num();
	p->aup_gids = mem(p->aup_len * sizeof *p->aup_gids);
	for (i = 0; i < p->aup_len; i++)
		p->aup_gids[i] = num();
}

void
put_sys(struct authunix_parms *p)
{
	u_int i;

	put((u_int)p->aup_time);
	puthex(p->aup_machname, (u_int)strlen(p->aup_machname));
	put(p->aup_uid);
	put(p->aup_gid);
	put(p->aup_len);
	for (i = 0; i < p->aup_len; i++)
		put(p->aup_gids[i]);
}

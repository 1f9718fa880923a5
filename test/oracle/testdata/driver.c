/*
 * The other half of the oracle: it encodes and decodes with what rpcgen made of the
 * .x files, and with libtirpc's own xdr_callmsg and xdr_replymsg.
 *
 * Each line on stdin is a command and its words, each answer one line on stdout:
 *
 *   e1 WORDS  e2 WORDS  encode a transport header   -> hex of the XDR
 *   ec WORDS  er WORDS  encode a call, a reply      -> hex
 *   es WORDS            encode an AUTH_SYS body     -> hex
 *   d1 HEX ... ds HEX   the reverse                 -> consumed bytes and WORDS
 *
 * "!" is the answer when the library refuses. Words are decimal numbers in the order
 * of the XDR, lists and arrays with their length before them, opaques and strings in hex, "-"
 * when empty.
 */
#include <sys/resource.h>
#include "driver.h"

#define BYTES (1 << 22)

static char line[2 * BYTES + 64];
static char bytes[BYTES];
static char *at; /* in line */

char *
word(void)
{
	char *w = strtok_r(NULL, " \n", &at);

	if (w == NULL) {
		fprintf(stderr, "driver: line too short\n");
		exit(1);
	}
	return w;
}

u_int
num(void)
{
	return (u_int)strtoul(word(), NULL, 10);
}

uint64
num64(void)
{
	return (uint64)strtoull(word(), NULL, 10);
}

/* Memory of one command is never freed: xdr_free could not tell it apart. */
void *
mem(size_t n)
{
	void *p = calloc(1, n ? n : 1);

	if (p == NULL)
		exit(1);
	return p;
}

char *
unhex(const char *s, u_int *n)
{
	char *b;
	u_int i;

	*n = strcmp(s, "-") == 0 ? 0 : (u_int)strlen(s) / 2;
	b = mem(*n + 1);
	for (i = 0; i < *n; i++) {
		unsigned v;

		sscanf(s + 2 * i, "%2x", &v);
		b[i] = (char)v;
	}
	return b;
}

void
put(u_int v)
{
	printf(" %u", v);
}

void
puthex(const char *b, u_int n)
{
	u_int i;

	putchar(' ');
	if (n == 0)
		putchar('-');
	for (i = 0; i < n; i++)
		printf("%02x", (unsigned char)b[i]);
}

union any {
	rdma_msg v1;
	rpcrdma2_xprt_hdr v2;
	struct rpc_msg rpc;
	struct authunix_parms sys;
};

static bool_t
run(XDR *x, char what, union any *m)
{
	switch (what) {
	case '1':
		return xdr_rdma_msg(x, &m->v1);
	case '2':
		return xdr_rpcrdma2_xprt_hdr(x, &m->v2);
	case 'c':
		return xdr_callmsg(x, &m->rpc);
	case 'r':
		return xdr_replymsg(x, &m->rpc);
	default:
		return xdr_authunix_parms(x, &m->sys);
	}
}

int
main(void)
{
	/* xdr_array allocates what a length word says: a garbled one must fail, not hurt */
	struct rlimit as = {256 << 20, 256 << 20};

	setrlimit(RLIMIT_AS, &as);
	while (fgets(line, sizeof line, stdin) != NULL) {
		char *cmd = strtok_r(line, " \n", &at);
		union any m;
		XDR x;

		memset(&m, 0, sizeof m);
		if (cmd == NULL || strlen(cmd) != 2)
			return 1;
		if (cmd[0] == 'e') {
			switch (cmd[1]) {
			case '1': get1(&m.v1); break;
			case '2': get2(&m.v2); break;
			case 'c': get_call(&m.rpc); break;
			case 'r': get_reply(&m.rpc); break;
			default: get_sys(&m.sys); break;
			}
			xdrmem_create(&x, bytes, sizeof bytes, XDR_ENCODE);
			if (run(&x, cmd[1], &m))
				puthex(bytes, xdr_getpos(&x));
			else
				putchar('!');
			/* xdr_callmsg leaves what is there in the round-up bytes */
			memset(bytes, 0, xdr_getpos(&x));
		} else {
			u_int n;
			char *b = unhex(word(), &n);

			xdrmem_create(&x, b, n, XDR_DECODE);
			/* replymsg decodes results as well: none here */
			if (cmd[1] == 'r')
				m.rpc.acpted_rply.ar_results.proc = (xdrproc_t)xdr_void;
			if (run(&x, cmd[1], &m)) {
				put(xdr_getpos(&x));
				switch (cmd[1]) {
				case '1': put1(&m.v1); break;
				case '2': put2(&m.v2); break;
				case 'c': put_call(&m.rpc); break;
				case 'r': put_reply(&m.rpc); break;
				default: put_sys(&m.sys); break;
				}
			} else {
				putchar('!');
			}
			if (cmd[1] == '1')
				xdr_free((xdrproc_t)xdr_rdma_msg, (char *)&m.v1);
			else if (cmd[1] == '2')
				xdr_free((xdrproc_t)xdr_rpcrdma2_xprt_hdr, (char *)&m.v2);
			free(b);
		}
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}

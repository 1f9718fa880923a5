/* Words of a line in, words of a line out: see driver.c. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rpc/rpc.h>
#include "rpcrdma_v1.h"
#include "rpcrdma_v2.h"

char *word(void);
u_int num(void);
uint64 num64(void);
void *mem(size_t n);
char *unhex(const char *s, u_int *n);
void put(u_int v);
void puthex(const char *b, u_int n);

void get1(rdma_msg *m);
void put1(rdma_msg *m);
void get2(rpcrdma2_xprt_hdr *m);
void put2(rpcrdma2_xprt_hdr *m);
void get_call(struct rpc_msg *m);
void put_call(struct rpc_msg *m);
void get_reply(struct rpc_msg *m);
void put_reply(struct rpc_msg *m);
void get_sys(struct authunix_parms *p);
void put_sys(struct authunix_parms *p);

/* Chunk lists. The structures of both versions differ in names only. */

#define LISTS(V, SEG, READ, READLIST, CHUNK, WRITELIST, ENTRY, NEXT, POS, TARGET, HANDLE, LENGTH, OFFSET) \
static void V##_get_segment(SEG *s)                                             \
{                                                                               \
	s->HANDLE = num();                                                      \
	s->LENGTH = num();                                                      \
	s->OFFSET = num64();                                                    \
}                                                                               \
static void V##_put_segment(SEG *s)                                             \
{                                                                               \
	printf(" %u %u %llu", s->HANDLE, s->LENGTH, (unsigned long long)s->OFFSET); \
}                                                                               \
static void V##_get_chunk(CHUNK *c)                                             \
{                                                                               \
	u_int i;                                                                \
	c->TARGET.TARGET##_len = num();                                         \
	c->TARGET.TARGET##_val = mem(c->TARGET.TARGET##_len * sizeof(SEG));     \
	for (i = 0; i < c->TARGET.TARGET##_len; i++)                            \
		V##_get_segment(&c->TARGET.TARGET##_val[i]);                    \
}                                                                               \
static void V##_put_chunk(CHUNK *c)                                             \
{                                                                               \
	u_int i;                                                                \
	put(c->TARGET.TARGET##_len);                                            \
	for (i = 0; i < c->TARGET.TARGET##_len; i++)                            \
		V##_put_segment(&c->TARGET.TARGET##_val[i]);                    \
}                                                                               \
static void V##_get_lists(READLIST **r, WRITELIST **w, CHUNK **reply)           \
{                                                                               \
	u_int n;                                                                \
	for (n = num(); n > 0; n--, r = &(*r)->NEXT) {                          \
		*r = mem(sizeof **r);                                           \
		(*r)->ENTRY.POS = num();                                        \
		V##_get_segment(&(*r)->ENTRY.TARGET);                           \
	}                                                                       \
	for (n = num(); n > 0; n--, w = &(*w)->NEXT) {                          \
		*w = mem(sizeof **w);                                           \
		V##_get_chunk(&(*w)->ENTRY);                                    \
	}                                                                       \
	if (num()) {                                                            \
		*reply = mem(sizeof **reply);                                   \
		V##_get_chunk(*reply);                                          \
	}                                                                       \
}                                                                               \
static void V##_put_lists(READLIST *r, WRITELIST *w, CHUNK *reply)              \
{                                                                               \
	READLIST *i;                                                            \
	WRITELIST *j;                                                           \
	u_int n;                                                                \
	for (n = 0, i = r; i; i = i->NEXT)                                      \
		n++;                                                            \
	put(n);                                                                 \
	for (i = r; i; i = i->NEXT) {                                           \
		put(i->ENTRY.POS);                                              \
		V##_put_segment(&i->ENTRY.TARGET);                              \
	}                                                                       \
	for (n = 0, j = w; j; j = j->NEXT)                                      \
		n++;                                                            \
	put(n);                                                                 \
	for (j = w; j; j = j->NEXT)                                             \
		V##_put_chunk(&j->ENTRY);                                       \
	put(reply != NULL);                                                     \
	if (reply)                                                              \
		V##_put_chunk(reply);                                           \
}

#endif

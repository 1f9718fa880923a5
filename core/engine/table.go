package engine

import "iter"

// table gives small numbers to things that have work posted: the numbers travel as work ids.
type table[T any] struct {
	items []*T
	spare []uint32
}

func (t *table[T]) add(v *T) uint32 {
	if n := len(t.spare); n > 0 {
		i := t.spare[n-1]
		t.spare = t.spare[:n-1]
		t.items[i] = v
		return i
	}
	t.items = append(t.items, v)
	return uint32(len(t.items) - 1)
}

func (t *table[T]) at(i uint32) *T { return t.items[i] }

func (t *table[T]) remove(i uint32) {
	if t.items[i] == nil {
		panic("engine: removed from a table twice")
	}
	t.items[i] = nil
	t.spare = append(t.spare, i)
}

func (t *table[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, v := range t.items {
			if v != nil && !yield(v) {
				return
			}
		}
	}
}

// callList is an intrusive list of calls, oldest first.
type callList struct{ head, tail *call }

func (l *callList) push(c *call) {
	c.prev, c.next = l.tail, nil
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next = c
	}
	l.tail = c
	c.listed = true
}

func (l *callList) remove(c *call) {
	if !c.listed {
		return
	}
	if c.prev == nil {
		l.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next, c.listed = nil, nil, false
}

// callQueue is a callList used first in, first out.
type callQueue struct{ callList }

func (q *callQueue) pop() *call {
	c := q.head
	if c != nil {
		q.remove(c)
	}
	return c
}

func (q *callQueue) empty() bool { return q.head == nil }

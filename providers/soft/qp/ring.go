package qp

// Ring is a queue of values that grows and keeps what it has grown to. Its zero value is empty.
type Ring[T any] struct {
	buf  []T // a power of two long
	head int
	n    int
}

// Len is how many values there are.
func (r *Ring[T]) Len() int { return r.n }

func (r *Ring[T]) grow() {
	if r.n < len(r.buf) {
		return
	}
	bigger := make([]T, max(16, 2*len(r.buf)))
	k := copy(bigger, r.buf[r.head:])
	copy(bigger[k:], r.buf[:r.head])
	r.buf, r.head = bigger, 0
}

// Push puts v behind the others.
func (r *Ring[T]) Push(v T) {
	r.grow()
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = v
	r.n++
}

// Unpop puts v before the others.
func (r *Ring[T]) Unpop(v T) {
	r.grow()
	r.head = (r.head - 1) & (len(r.buf) - 1)
	r.buf[r.head] = v
	r.n++
}

// Pop takes the first value. There must be one.
func (r *Ring[T]) Pop() T {
	var zero T
	v := r.buf[r.head]
	r.buf[r.head] = zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return v
}

package server3

import "sync"

// locks serialize changes of one object, or of two, made through this server, so that wcc_data of
// directories is exact among its clients. Each object in use has a lock of its own: nobody waits for who is busy elsewhere.
type locks struct {
	mu    sync.Mutex
	byIno map[uint64]*inoLock
}

type inoLock struct {
	sync.Mutex
	users int // holders and those that wait; guarded by locks.mu
}

func (l *locks) take(ino uint64) *inoLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.byIno[ino]
	if k == nil {
		k = new(inoLock)
		if l.byIno == nil {
			l.byIno = map[uint64]*inoLock{}
		}
		l.byIno[ino] = k
	}
	k.users++
	return k
}

func (l *locks) give(ino uint64, k *inoLock) {
	k.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.byIno, ino)
	}
}

// lock locks two objects, or one given twice, in an order that all keep.
func (l *locks) lock(a, b *node) (unlock func()) {
	i, j := min(a.ino, b.ino), max(a.ino, b.ino)
	first := l.take(i)
	first.Lock()
	if i == j {
		return func() { l.give(i, first) }
	}
	second := l.take(j)
	second.Lock()
	return func() {
		l.give(j, second)
		l.give(i, first)
	}
}

package engine

import "sync/atomic"

// users counts who uses a group's memory, so that its end can wait for them: calls from Do to
// Free, requests from their arrival to their end.
type users struct {
	n     atomic.Int64 // usersClosed is added when no more may come
	empty chan struct{}
}

const usersClosed = 1 << 40

// enter counts one in, and reports whether more may come.
func (u *users) enter() bool {
	if u.n.Add(1) < usersClosed {
		return true
	}
	u.leave()
	return false
}

func (u *users) leave() {
	if u.n.Add(-1) == usersClosed {
		select {
		case u.empty <- struct{}{}:
		default:
		}
	}
}

// close lets nobody in any more, and waits until all have left.
func (u *users) close() {
	if u.n.Add(usersClosed) == usersClosed {
		return
	}
	<-u.empty
}

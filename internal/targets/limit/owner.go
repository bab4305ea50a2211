package limit

import "sync"

// PerOwner counts what runs for each owner now. Its zero value is empty.
type PerOwner struct {
	mu   sync.Mutex
	open map[string]int
}

// Enter counts one more. It reports false, and counts nothing, if the owner has the maximum.
func (n *PerOwner) Enter(owner string, most int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[owner] >= most {
		return false
	}
	if n.open == nil {
		n.open = map[string]int{}
	}
	n.open[owner]++
	return true
}

// Leave counts one less.
func (n *PerOwner) Leave(owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[owner]--; n.open[owner] == 0 {
		delete(n.open, owner)
	}
}

package doctor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// disk is a file system.
type disk struct {
	kind             string
	size, free       uint64 // bytes
	nodes, freeNodes uint64
	readOnly         bool
	shared           bool // over the network
	memory           bool // in memory
}

// fileSystems are the names of file systems by their magic numbers.
func fileSystems() map[int64]string {
	return map[int64]string{0xEF53: "ext4", 0x58465342: "xfs", 0x9123683E: "btrfs", 0x01021994: "tmpfs", 0x858458f6: "ramfs", 0x6969: "nfs", 0xFF534D42: "cifs", 0xFE534D42: "smb", 0x794c7630: "overlay", 0x65735546: "fuse", 0x2FC12FC1: "zfs", 0xF2F52010: "f2fs", 0x00C36400: "ceph", 0x01021997: "9p"}
}

// readOnlyFlag is ST_RDONLY of statfs.
const readOnlyFlag = 1

func diskOf(path string) (d disk, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return d, err
	}
	d.kind = fileSystems()[int64(s.Type)&0xFFFFFFFF] //nolint:unconvert // it has 32 bits on some systems
	if d.kind == "" {
		d.kind = fmt.Sprintf("a file system of type %#x", s.Type)
	}
	block := uint64(s.Bsize)
	d.size, d.free, d.nodes, d.freeNodes = s.Blocks*block, s.Bavail*block, s.Files, s.Ffree
	d.readOnly = s.Flags&readOnlyFlag != 0
	d.shared = slices.Contains([]string{"nfs", "cifs", "smb", "ceph", "9p"}, d.kind)
	d.memory = d.kind == "tmpfs" || d.kind == "ramfs"
	return d, nil
}

// Bounds of what is read of /proc.
const (
	maxTable     = 8 << 20 // bytes of a table of sockets
	maxProcesses = 50_000
	listening    = "0A"
)

// holderOf returns the process that listens on an address.
func holderOf(address string) (h holder, ok bool) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return h, false
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port == 0 {
		return h, false
	}
	want, _ := netip.ParseAddr(host) // invalid: all addresses, or a name
	if host == "localhost" {
		want = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if inode, uid, found := findSocket(table, want, port); found {
			h = holder{uid: uid}
			h.pid, h.name = processOf(inode)
			return h, true
		}
	}
	return h, false
}

// findSocket returns the inode and the user of the socket that listens on an address, from a table of sockets.
func findSocket(table string, want netip.Addr, port int) (inode string, uid int, found bool) {
	f, err := os.Open(table) //nolint:gosec // one of two
	if err != nil {
		return "", 0, false
	}
	defer func() { _ = f.Close() }()
	s := bufio.NewScanner(io.LimitReader(f, maxTable))
	for s.Scan() {
		fields := strings.Fields(s.Text())
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		at, ok := parseSocket(fields[1])
		if !ok || int(at.Port()) != port {
			continue
		}
		addr := at.Addr().Unmap()
		if want.IsValid() && !want.IsUnspecified() && !addr.IsUnspecified() && addr != want.Unmap() {
			continue
		}
		uid, _ = strconv.Atoi(fields[7])
		return fields[9], uid, true
	}
	return "", 0, false
}

// parseSocket reads an address of /proc/net/tcp: words in the byte order of the machine, and a port.
func parseSocket(text string) (at netip.AddrPort, ok bool) {
	host, portText, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	port, err2 := strconv.ParseUint(portText, 16, 16)
	if err != nil || err2 != nil || len(raw) != 4 && len(raw) != 16 {
		return at, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(port)), ok
}

// processOf returns the process that has a socket; 0: this user may not see it.
func processOf(inode string) (pid int, name string) {
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	want := "socket:[" + inode + "]"
	for _, dir := range processes[:min(len(processes), maxProcesses)] {
		files, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue
		}
		for _, f := range files {
			if to, err := os.Readlink(filepath.Join(dir, "fd", f.Name())); err == nil && to == want {
				pid, _ = strconv.Atoi(filepath.Base(dir))
				text, _ := os.ReadFile(filepath.Join(dir, "comm")) //nolint:gosec // below /proc
				return pid, string(bytes.TrimSpace(text))
			}
		}
	}
	return 0, ""
}

// limitsOf returns the limits of a process; 0: of this one.
func limitsOf(pid int) (l limits, err error) {
	dir := "/proc/self"
	if pid != 0 {
		dir = "/proc/" + strconv.Itoa(pid)
	}
	text, err := os.ReadFile(filepath.Join(dir, "limits"))
	if err != nil {
		return l, err
	}
	l.files, l.processes = limitIn(text, "Max open files"), limitIn(text, "Max processes")
	if files, err := os.ReadDir(filepath.Join(dir, "fd")); err == nil && pid != 0 {
		l.open = len(files)
	}
	if n, ok := groupLimit("pids.max"); ok && (l.processes == 0 || int(n) < l.processes) {
		l.processes = int(n)
	}
	l.memory, _ = groupLimit("memory.max")
	return l, nil
}

// limitIn returns the soft limit with a name; 0: none.
func limitIn(text []byte, name string) int {
	_, rest, _ := bytes.Cut(text, []byte(name))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(string(fields[0])) // "unlimited" is 0
	return n
}

// groupLimit returns a limit of the control group, as a container sees it.
func groupLimit(name string) (int64, bool) {
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", name)) //nolint:gosec // one of two names
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64) // "max" is none
	return n, err == nil
}

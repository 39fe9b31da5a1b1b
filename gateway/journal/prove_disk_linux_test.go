//go:build amd64 || arm64

package journal

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// disk is a file system in memory that loses, when its power is cut, whatever was not fsynced:
// the content of a file until that file is fsynced, the names in a folder until that folder is.
type disk struct {
	mu   sync.Mutex
	root *inode
	off  bool // the power is cut: every call fails
	left int  // calls until then; 0: it stays

	renames []rename // that no fsync has covered; each reaches the disk as a whole or not at all

	failAt   int    // writes and fsyncs until one fails with EIO; 0: none
	failSync bool   // fsync fails with EIO, and what it should have kept is lost
	used     uint64 // bytes of file contents
}

// inode is a file or a folder, as programs see it and as the disk has it.
type inode struct {
	fs.Inode
	d *disk

	data, kept   []byte
	lost         bool // an fsync has failed since
	writes       []write
	names, saved map[string]*inode // of a folder; nil: a file
}

// write is one that no fsync has covered.
type write struct {
	at   int
	data []byte // nil: the file was cut or grown to at
}

// rename is one from a folder to another: file systems with a journal write both at once.
type rename struct {
	from, to    *inode
	name, newly string
	child       *inode
}

// keep makes a rename durable.
func (r rename) keep() {
	if r.from.saved[r.name] == r.child {
		delete(r.from.saved, r.name)
	}
	r.to.saved[r.newly] = r.child
}

const sector = 512

func newDisk() *disk {
	d := new(disk)
	d.root = d.folder()
	return d
}

func (d *disk) folder() *inode {
	return &inode{d: d, names: map[string]*inode{}, saved: map[string]*inode{}}
}

// cut takes the power away and returns the disk as it is found afterwards. With a rng, of each
// write that was not synced any sectors may have reached the disk, and of each change of a
// folder that was not synced as well.
func (d *disk) cut(rng *rand.Rand) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	for _, r := range d.renames {
		if rng == nil || rng.IntN(2) == 0 {
			break // in their order
		}
		r.keep()
	}
	for _, r := range d.renames { // what is known of them is decided
		r.from.names[r.name], r.to.names[r.newly] = r.from.saved[r.name], r.to.saved[r.newly]
		for _, f := range []struct {
			*inode
			string
		}{{r.from, r.name}, {r.to, r.newly}} {
			if f.names[f.string] == nil {
				delete(f.names, f.string)
			}
		}
	}
	after := newDisk()
	after.root = d.root.survivor(after, rng)
	return after
}

func (n *inode) survivor(d *disk, rng *rand.Rand) *inode {
	if n.names == nil {
		kept := append([]byte(nil), n.kept...)
		for _, w := range n.writes {
			if rng != nil && !n.lost {
				kept = w.torn(kept, rng)
			}
		}
		d.used += uint64(len(kept))
		return &inode{d: d, data: kept, kept: append([]byte(nil), kept...)}
	}
	names := maps.Clone(n.saved)
	if rng != nil {
		for name := range unite(n.names, n.saved) {
			if now, is := n.names[name]; rng.IntN(2) == 0 {
				if delete(names, name); is {
					names[name] = now
				}
			}
		}
	}
	folder := d.folder()
	for name, child := range names {
		folder.names[name] = child.survivor(d, rng)
	}
	folder.saved = maps.Clone(folder.names)
	return folder
}

func unite(a, b map[string]*inode) map[string]*inode {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// torn applies some sectors of a write.
func (w write) torn(b []byte, rng *rand.Rand) []byte {
	if w.data == nil {
		if rng.IntN(2) == 0 {
			return resized(b, w.at)
		}
		return b
	}
	for from := 0; from < len(w.data); {
		to := min(from+sector-(w.at+from)%sector, len(w.data))
		if rng.IntN(2) == 0 {
			b = apply(b, write{w.at + from, w.data[from:to]})
		}
		from = to
	}
	return b
}

func apply(b []byte, w write) []byte {
	if w.data == nil {
		return resized(b, w.at)
	}
	if end := w.at + len(w.data); end > len(b) {
		b = resized(b, end)
	}
	copy(b[w.at:], w.data)
	return b
}

func resized(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size]
	}
	return append(b, make([]byte, size-len(b))...)
}

// enter locks the disk. Without power it fails.
func (d *disk) enter() syscall.Errno {
	d.mu.Lock()
	if d.left > 0 {
		d.left--
		d.off = d.off || d.left == 0
	}
	if d.off {
		d.mu.Unlock()
		return syscall.EIO
	}
	return 0
}

// fails reports whether this write or fsync is the one that fails. The caller has locked the disk.
func (d *disk) fails() bool {
	if d.failAt == 0 {
		return false
	}
	d.failAt--
	return d.failAt == 0
}

// mount shows the disk in the folder dir, and returns what takes it away.
func (d *disk) mount(dir string) (unmount func(), err error) {
	zero := time.Duration(0)
	o := fs.Options{
		EntryTimeout: &zero, AttrTimeout: &zero,
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "prove", MaxWrite: 1 << 20},
	}
	server, err := fuse.NewServer(fs.NewNodeFS(d.root, &o), dir, &o.MountOptions)
	if err != nil {
		return nil, err
	}
	var serving sync.WaitGroup // Server.Wait returns while the server still reads the root, which may be mounted again
	serving.Go(server.Serve)
	unmount = func() {
		syscall.Unmount(dir, syscall.MNT_DETACH)
		serving.Wait()
	}
	if err := server.WaitMount(); err != nil {
		unmount()
		return nil, err
	}
	return unmount, nil
}

// OnAdd shows the kernel what a folder contains.
func (n *inode) OnAdd(ctx context.Context) {
	for name, child := range n.names {
		n.AddChild(name, n.NewPersistentInode(ctx, child, child.attr()), true)
	}
}

func (n *inode) attr() fs.StableAttr {
	if n.names != nil {
		return fs.StableAttr{Mode: fuse.S_IFDIR}
	}
	return fs.StableAttr{Mode: fuse.S_IFREG}
}

func (n *inode) fill(out *fuse.Attr) {
	out.Mode, out.Size, out.Blksize = 0o600, uint64(len(n.data)), 4096
	if n.names != nil {
		out.Mode = 0o700
	}
}

func (n *inode) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if e := n.d.enter(); e != 0 {
		return e
	}
	defer n.d.mu.Unlock()
	n.fill(&out.Attr)
	return 0
}

func (n *inode) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if e := n.d.enter(); e != 0 {
		return e
	}
	defer n.d.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		n.change(write{at: int(size)})
	}
	n.fill(&out.Attr)
	return 0
}

// change is made in what programs see, and remembered until an fsync.
func (n *inode) change(w write) {
	n.d.used -= uint64(len(n.data))
	n.data = apply(n.data, w)
	n.d.used += uint64(len(n.data))
	n.writes = append(n.writes, w)
}

func (n *inode) add(ctx context.Context, name string, child *inode, out *fuse.EntryOut) *fs.Inode {
	n.names[name] = child
	child.fill(&out.Attr)
	return n.NewPersistentInode(ctx, child, child.attr())
}

func (n *inode) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if e := n.d.enter(); e != 0 {
		return nil, nil, 0, e
	}
	defer n.d.mu.Unlock()
	return n.add(ctx, name, &inode{d: n.d}, out), nil, 0, 0
}

func (n *inode) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if e := n.d.enter(); e != 0 {
		return nil, e
	}
	defer n.d.mu.Unlock()
	return n.add(ctx, name, n.d.folder(), out), 0
}

func (n *inode) Unlink(_ context.Context, name string) syscall.Errno {
	if e := n.d.enter(); e != 0 {
		return e
	}
	defer n.d.mu.Unlock()
	if child := n.names[name]; child != nil {
		n.d.used -= uint64(len(child.data))
	}
	delete(n.names, name)
	return 0
}

func (n *inode) Rmdir(_ context.Context, name string) syscall.Errno {
	if e := n.d.enter(); e != 0 {
		return e
	}
	defer n.d.mu.Unlock()
	if child := n.names[name]; child != nil && len(child.names) > 0 {
		return syscall.ENOTEMPTY
	}
	delete(n.names, name)
	return 0
}

func (n *inode) Rename(_ context.Context, name string, to fs.InodeEmbedder, newName string, _ uint32) syscall.Errno {
	if e := n.d.enter(); e != 0 {
		return e
	}
	defer n.d.mu.Unlock()
	child := n.names[name]
	to.(*inode).names[newName] = child
	delete(n.names, name)
	n.d.renames = append(n.d.renames, rename{n, to.(*inode), name, newName, child})
	return 0
}

func (n *inode) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if e := n.d.enter(); e != 0 {
		return nil, 0, e
	}
	defer n.d.mu.Unlock()
	return nil, 0, 0
}

func (n *inode) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if e := n.d.enter(); e != 0 {
		return nil, e
	}
	defer n.d.mu.Unlock()
	if off >= int64(len(n.data)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, n.data[off:])]), 0
}

func (n *inode) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	if e := n.d.enter(); e != 0 {
		return 0, e
	}
	defer n.d.mu.Unlock()
	if n.d.fails() {
		return 0, syscall.EIO
	}
	n.change(write{int(off), append([]byte{}, data...)})
	return uint32(len(data)), 0
}

func (n *inode) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if e := n.d.enter(); e != 0 {
		return e
	}
	defer n.d.mu.Unlock()
	if n.d.failSync || n.d.fails() {
		n.lost, n.writes = true, nil // as Linux does: the pages count as clean
		return syscall.EIO
	}
	if n.names != nil {
		for i := len(n.d.renames) - 1; i >= 0; i-- { // with it reach the disk those that came before
			if r := n.d.renames[i]; r.from == n || r.to == n {
				for _, r := range n.d.renames[:i+1] {
					r.keep()
				}
				n.d.renames = n.d.renames[i+1:]
				break
			}
		}
		n.saved = maps.Clone(n.names)
		return 0
	}
	for _, w := range n.writes {
		n.kept = apply(n.kept, w)
	}
	n.writes = nil
	return 0
}

func (n *inode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	if e := n.d.enter(); e != 0 {
		return e
	}
	defer n.d.mu.Unlock()
	const size = 1 << 40
	out.Bsize, out.Frsize, out.NameLen = sector, sector, 255
	out.Blocks, out.Bfree = size/sector, (size-min(n.d.used, size))/sector
	out.Bavail = out.Bfree
	return 0
}

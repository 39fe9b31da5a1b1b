package avatar

import (
	"os"
	"sync"
)

// LogFile is a file for appending lines. It can be reopened under its name after another program,
// such as logrotate, has renamed it. OpenLogFile makes one.
type LogFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

// OpenLogFile opens a file for appending, and creates it if necessary.
func OpenLogFile(path string) (*LogFile, error) {
	file, err := openLog(path)
	return &LogFile{path: path, file: file}, err
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
}

// Reopen switches to the file that has the name now. If that cannot be opened, it keeps the old
// one.
func (f *LogFile) Reopen() error {
	file, err := openLog(f.path)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.file
	f.file = file
	return old.Close()
}

// Write appends b.
func (f *LogFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Write(b)
}

// Close closes the file.
func (f *LogFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}

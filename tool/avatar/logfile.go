package avatar

import (
	"os"
	"sync"
)

// LogFile is a file that lines are appended to, and that can be opened again under its
// name when another program has renamed it, as logrotate does. OpenLogFile makes one.
type LogFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

// OpenLogFile opens a file to append to, and creates it if there is none.
func OpenLogFile(path string) (*LogFile, error) {
	file, err := openLog(path)
	return &LogFile{path: path, file: file}, err
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
}

// Reopen goes on in the file that has the name now. When it cannot be opened, the old one
// is kept.
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

// Write appends.
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

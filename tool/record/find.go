package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

const storeName = "runs"

// Find returns the path of the store to be used from dir: in the nearest folder
// .hone from there upwards, else in the user's data folder ($XDG_DATA_HOME or
// ~/.local/share, ~/Library/Application Support, %LocalAppData%). It creates nothing.
func Find(dir string) (path string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("record: %w", err)
	}
	for {
		near := filepath.Join(dir, ".hone")
		if info, err := os.Stat(near); err == nil && info.IsDir() {
			return filepath.Join(near, storeName), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	data, err := dataFolder(runtime.GOOS, os.Getenv)
	if err != nil {
		return "", fmt.Errorf("record: no place for runs: %w; create a folder .hone where you work", err)
	}
	return filepath.Join(data, "hone", storeName), nil
}

// dataFolder returns the platform's folder for user data.
func dataFolder(goos string, getenv func(string) string) (string, error) {
	variable, below := "HOME", []string{".local", "share"}
	switch goos {
	case "windows":
		variable, below = "LocalAppData", nil
	case "darwin", "ios":
		below = []string{"Library", "Application Support"}
	default:
		if data := getenv("XDG_DATA_HOME"); filepath.IsAbs(data) { // XDG: ignore relative paths
			return data, nil
		}
	}
	base := getenv(variable)
	if base == "" {
		return "", errors.New(variable + " is not set")
	}
	return filepath.Join(append([]string{base}, below...)...), nil
}

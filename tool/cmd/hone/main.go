// Command hone serves, loads and compares hone's servers. Run it without arguments to see
// its commands.
//
// It is wiring: flags become values of the packages that do the work, and their results
// become text or JSON. Standard output holds only a command's result; progress and logs
// go to standard error.
package main

import "github.com/hone-go/hone/tool/command"

func main() { command.Main(newRoot()) }

package web

import "strings"

// What every server of WebSocket does: on EchoPath it answers each message with the same,
// and connections on CrowdPath are pushed to. Messages are binary, so that nobody needs to
// look whether they are UTF-8.
const (
	EchoPath  = "/echo"
	CrowdPath = "/crowd"
	RoomPath  = "/room" // of hone's server only: each message goes to all of them
)

// Socket is the name of the question to servers of WebSocket: to echo Echoed.
const Socket = "ws"

// Echoed is what a message to them carries.
func Echoed() []byte { return []byte(strings.Repeat("sixteen letters.", 4)) }

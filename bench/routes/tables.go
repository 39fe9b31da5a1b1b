package routes

// The tables have one path a line, and the methods that it has. They are facts
// about public interfaces, in the choice of the usual benchmark
// (github.com/julienschmidt/go-http-routing-benchmark, commit d8f3b85).

// github is version 3 of GitHub's REST interface as of 2013, without what
// httprouter cannot hold beside it: 203 routes.
const github = `
/authorizations GET POST
/authorizations/{id} GET DELETE
/applications/{client_id}/tokens/{access_token} GET DELETE
/applications/{client_id}/tokens DELETE
/events GET
/repos/{owner}/{repo}/events GET
/networks/{owner}/{repo}/events GET
/orgs/{org}/events GET
/users/{user}/received_events GET
/users/{user}/received_events/public GET
/users/{user}/events GET
/users/{user}/events/public GET
/users/{user}/events/orgs/{org} GET
/feeds GET
/notifications GET PUT
/repos/{owner}/{repo}/notifications GET PUT
/notifications/threads/{id} GET
/notifications/threads/{id}/subscription GET PUT DELETE
/repos/{owner}/{repo}/stargazers GET
/users/{user}/starred GET
/user/starred GET
/user/starred/{owner}/{repo} GET PUT DELETE
/repos/{owner}/{repo}/subscribers GET
/users/{user}/subscriptions GET
/user/subscriptions GET
/repos/{owner}/{repo}/subscription GET PUT DELETE
/user/subscriptions/{owner}/{repo} GET PUT DELETE
/users/{user}/gists GET
/gists GET POST
/gists/{id} GET DELETE
/gists/{id}/star PUT DELETE GET
/gists/{id}/forks POST
/repos/{owner}/{repo}/git/blobs/{sha} GET
/repos/{owner}/{repo}/git/blobs POST
/repos/{owner}/{repo}/git/commits/{sha} GET
/repos/{owner}/{repo}/git/commits POST
/repos/{owner}/{repo}/git/refs GET POST
/repos/{owner}/{repo}/git/tags/{sha} GET
/repos/{owner}/{repo}/git/tags POST
/repos/{owner}/{repo}/git/trees/{sha} GET
/repos/{owner}/{repo}/git/trees POST
/issues GET
/user/issues GET
/orgs/{org}/issues GET
/repos/{owner}/{repo}/issues GET POST
/repos/{owner}/{repo}/issues/{number} GET
/repos/{owner}/{repo}/assignees GET
/repos/{owner}/{repo}/assignees/{assignee} GET
/repos/{owner}/{repo}/issues/{number}/comments GET POST
/repos/{owner}/{repo}/issues/{number}/events GET
/repos/{owner}/{repo}/labels GET POST
/repos/{owner}/{repo}/labels/{name} GET DELETE
/repos/{owner}/{repo}/issues/{number}/labels GET POST PUT DELETE
/repos/{owner}/{repo}/issues/{number}/labels/{name} DELETE
/repos/{owner}/{repo}/milestones/{number}/labels GET
/repos/{owner}/{repo}/milestones GET POST
/repos/{owner}/{repo}/milestones/{number} GET DELETE
/emojis GET
/gitignore/templates GET
/gitignore/templates/{name} GET
/markdown POST
/markdown/raw POST
/meta GET
/rate_limit GET
/users/{user}/orgs GET
/user/orgs GET
/orgs/{org} GET
/orgs/{org}/members GET
/orgs/{org}/members/{user} GET DELETE
/orgs/{org}/public_members GET
/orgs/{org}/public_members/{user} GET PUT DELETE
/orgs/{org}/teams GET POST
/teams/{id} GET DELETE
/teams/{id}/members GET
/teams/{id}/members/{user} GET PUT DELETE
/teams/{id}/repos GET
/teams/{id}/repos/{owner}/{repo} GET PUT DELETE
/user/teams GET
/repos/{owner}/{repo}/pulls GET POST
/repos/{owner}/{repo}/pulls/{number} GET
/repos/{owner}/{repo}/pulls/{number}/commits GET
/repos/{owner}/{repo}/pulls/{number}/files GET
/repos/{owner}/{repo}/pulls/{number}/merge GET PUT
/repos/{owner}/{repo}/pulls/{number}/comments GET PUT
/user/repos GET POST
/users/{user}/repos GET
/orgs/{org}/repos GET POST
/repositories GET
/repos/{owner}/{repo} GET DELETE
/repos/{owner}/{repo}/contributors GET
/repos/{owner}/{repo}/languages GET
/repos/{owner}/{repo}/teams GET
/repos/{owner}/{repo}/tags GET
/repos/{owner}/{repo}/branches GET
/repos/{owner}/{repo}/branches/{branch} GET
/repos/{owner}/{repo}/collaborators GET
/repos/{owner}/{repo}/collaborators/{user} GET PUT DELETE
/repos/{owner}/{repo}/comments GET
/repos/{owner}/{repo}/commits/{sha}/comments GET POST
/repos/{owner}/{repo}/comments/{id} GET DELETE
/repos/{owner}/{repo}/commits GET
/repos/{owner}/{repo}/commits/{sha} GET
/repos/{owner}/{repo}/readme GET
/repos/{owner}/{repo}/keys GET POST
/repos/{owner}/{repo}/keys/{id} GET DELETE
/repos/{owner}/{repo}/downloads GET
/repos/{owner}/{repo}/downloads/{id} GET DELETE
/repos/{owner}/{repo}/forks GET POST
/repos/{owner}/{repo}/hooks GET POST
/repos/{owner}/{repo}/hooks/{id} GET DELETE
/repos/{owner}/{repo}/hooks/{id}/tests POST
/repos/{owner}/{repo}/merges POST
/repos/{owner}/{repo}/releases GET POST
/repos/{owner}/{repo}/releases/{id} GET DELETE
/repos/{owner}/{repo}/releases/{id}/assets GET
/repos/{owner}/{repo}/stats/contributors GET
/repos/{owner}/{repo}/stats/commit_activity GET
/repos/{owner}/{repo}/stats/code_frequency GET
/repos/{owner}/{repo}/stats/participation GET
/repos/{owner}/{repo}/stats/punch_card GET
/repos/{owner}/{repo}/statuses/{ref} GET POST
/search/repositories GET
/search/code GET
/search/issues GET
/search/users GET
/legacy/issues/search/{owner}/{repository}/{state}/{keyword} GET
/legacy/repos/search/{keyword} GET
/legacy/user/search/{keyword} GET
/legacy/user/email/{email} GET
/users/{user} GET
/user GET
/users GET
/user/emails GET POST DELETE
/users/{user}/followers GET
/user/followers GET
/users/{user}/following GET
/user/following GET
/user/following/{user} GET PUT DELETE
/users/{user}/following/{target_user} GET
/users/{user}/keys GET
/user/keys GET POST
/user/keys/{id} GET DELETE
`

// githubRest is what github leaves out: 36 routes.
const githubRest = `
/authorizations/clients/{client_id} PUT
/authorizations/{id} PATCH
/notifications/threads/{id} PATCH
/gists/public GET
/gists/starred GET
/gists/{id} PATCH
/repos/{owner}/{repo}/git/refs/{ref...} GET PATCH DELETE
/repos/{owner}/{repo}/issues/{number} PATCH
/repos/{owner}/{repo}/issues/comments GET
/repos/{owner}/{repo}/issues/comments/{id} GET PATCH DELETE
/repos/{owner}/{repo}/issues/events GET
/repos/{owner}/{repo}/issues/events/{id} GET
/repos/{owner}/{repo}/labels/{name} PATCH
/repos/{owner}/{repo}/milestones/{number} PATCH
/orgs/{org} PATCH
/teams/{id} PATCH
/repos/{owner}/{repo}/pulls/{number} PATCH
/repos/{owner}/{repo}/pulls/comments GET
/repos/{owner}/{repo}/pulls/comments/{number} GET PATCH DELETE
/repos/{owner}/{repo} PATCH
/repos/{owner}/{repo}/comments/{id} PATCH
/repos/{owner}/{repo}/contents/{path...} GET PUT DELETE
/repos/{owner}/{repo}/{archive_format}/{ref} GET
/repos/{owner}/{repo}/keys/{id} PATCH
/repos/{owner}/{repo}/hooks/{id} PATCH
/repos/{owner}/{repo}/releases/{id} PATCH
/user PATCH
/user/keys/{id} PATCH
`

// gplus is a part of the interface of Google+: 13 routes.
const gplus = `
/people/{userId} GET
/people GET
/activities/{activityId}/people/{collection} GET
/people/{userId}/people/{collection} GET
/people/{userId}/openIdConnect GET
/people/{userId}/activities/{collection} GET
/activities/{activityId} GET
/activities GET
/activities/{activityId}/comments GET
/comments/{commentId} GET
/people/{userId}/moments/{collection} POST GET
/moments/{id} DELETE
`

// parse is the REST interface of Parse: 26 routes.
const parse = `
/1/classes/{className} POST GET
/1/classes/{className}/{objectId} GET PUT DELETE
/1/users POST GET
/1/login GET
/1/users/{objectId} GET PUT DELETE
/1/requestPasswordReset POST
/1/roles POST GET
/1/roles/{objectId} GET PUT DELETE
/1/files/{fileName} POST
/1/events/{eventName} POST
/1/push POST
/1/installations POST GET
/1/installations/{objectId} GET PUT DELETE
/1/functions POST
`

// static are the files of an early website of Go: 157 routes.
const static = `
/
/cmd.html
/code.html
/contrib.html
/contribute.html
/debugging_with_gdb.html
/docs.html
/effective_go.html
/files.log
/gccgo_contribute.html
/gccgo_install.html
/go-logo-black.png
/go-logo-blue.png
/go-logo-white.png
/go1.1.html
/go1.2.html
/go1.html
/go1compat.html
/go_faq.html
/go_mem.html
/go_spec.html
/help.html
/ie.css
/install-source.html
/install.html
/logo-153x55.png
/Makefile
/root.html
/share.png
/sieve.gif
/tos.html
/articles
/articles/go_command.html
/articles/index.html
/articles/wiki
/articles/wiki/edit.html
/articles/wiki/final-noclosure.go
/articles/wiki/final-noerror.go
/articles/wiki/final-parsetemplate.go
/articles/wiki/final-template.go
/articles/wiki/final.go
/articles/wiki/get.go
/articles/wiki/http-sample.go
/articles/wiki/index.html
/articles/wiki/Makefile
/articles/wiki/notemplate.go
/articles/wiki/part1-noerror.go
/articles/wiki/part1.go
/articles/wiki/part2.go
/articles/wiki/part3-errorhandling.go
/articles/wiki/part3.go
/articles/wiki/test.bash
/articles/wiki/test_edit.good
/articles/wiki/test_Test.txt.good
/articles/wiki/test_view.good
/articles/wiki/view.html
/codewalk
/codewalk/codewalk.css
/codewalk/codewalk.js
/codewalk/codewalk.xml
/codewalk/functions.xml
/codewalk/markov.go
/codewalk/markov.xml
/codewalk/pig.go
/codewalk/popout.png
/codewalk/run
/codewalk/sharemem.xml
/codewalk/urlpoll.go
/devel
/devel/release.html
/devel/weekly.html
/gopher
/gopher/appenginegopher.jpg
/gopher/appenginegophercolor.jpg
/gopher/appenginelogo.gif
/gopher/bumper.png
/gopher/bumper192x108.png
/gopher/bumper320x180.png
/gopher/bumper480x270.png
/gopher/bumper640x360.png
/gopher/doc.png
/gopher/frontpage.png
/gopher/gopherbw.png
/gopher/gophercolor.png
/gopher/gophercolor16x16.png
/gopher/help.png
/gopher/pkg.png
/gopher/project.png
/gopher/ref.png
/gopher/run.png
/gopher/talks.png
/gopher/pencil
/gopher/pencil/gopherhat.jpg
/gopher/pencil/gopherhelmet.jpg
/gopher/pencil/gophermega.jpg
/gopher/pencil/gopherrunning.jpg
/gopher/pencil/gopherswim.jpg
/gopher/pencil/gopherswrench.jpg
/play
/play/fib.go
/play/hello.go
/play/life.go
/play/peano.go
/play/pi.go
/play/sieve.go
/play/solitaire.go
/play/tree.go
/progs
/progs/cgo1.go
/progs/cgo2.go
/progs/cgo3.go
/progs/cgo4.go
/progs/defer.go
/progs/defer.out
/progs/defer2.go
/progs/defer2.out
/progs/eff_bytesize.go
/progs/eff_bytesize.out
/progs/eff_qr.go
/progs/eff_sequence.go
/progs/eff_sequence.out
/progs/eff_unused1.go
/progs/eff_unused2.go
/progs/error.go
/progs/error2.go
/progs/error3.go
/progs/error4.go
/progs/go1.go
/progs/gobs1.go
/progs/gobs2.go
/progs/image_draw.go
/progs/image_package1.go
/progs/image_package1.out
/progs/image_package2.go
/progs/image_package2.out
/progs/image_package3.go
/progs/image_package3.out
/progs/image_package4.go
/progs/image_package4.out
/progs/image_package5.go
/progs/image_package5.out
/progs/image_package6.go
/progs/image_package6.out
/progs/interface.go
/progs/interface2.go
/progs/interface2.out
/progs/json1.go
/progs/json2.go
/progs/json2.out
/progs/json3.go
/progs/json4.go
/progs/json5.go
/progs/run
/progs/slices.go
/progs/timeout1.go
/progs/timeout2.go
/progs/update.bash
`

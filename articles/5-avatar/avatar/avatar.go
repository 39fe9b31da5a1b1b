// Package avatar turns a name into a picture of its initials, and serves such pictures over HTTP:
// the service of the fifth article with its lesson, to cache the bytes that are sent.
//
//	fonts, err := avatar.OpenFonts()
//	if err != nil {
//		log.Fatal(err)
//	}
//	server := &http1.Server{Handler: &avatar.Service{Fonts: fonts}}
//	log.Fatal(server.Serve(listener))
//
// A request becomes a [Picture] (forms.go), whose bytes come from the cache or are drawn
// (service.go): a name's letters (initials.go), their outlines (outline.go), PNG or SVG (png.go,
// svg.go).
package avatar

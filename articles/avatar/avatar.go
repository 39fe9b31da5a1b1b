// Package avatar turns a name into a picture of its initials, and serves such
// pictures over HTTP.
//
//	fonts, err := avatar.OpenFonts(avatar.FontOptions{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	server := &avatar.Server{Service: &avatar.Service{Fonts: fonts}}
//	log.Fatal(server.Serve(listener))
//
// The same name gives the same bytes on every machine and after every start,
// for the same fonts: all that is drawn is calculated with integers.
//
// A picture of two colours is a mask, which belongs to letters, size and shape,
// and its colours, which are a few bytes at a known place. So a mask is drawn
// once for all colours (36 µs for 128 pixels, BenchmarkRender), another colour
// costs a copy (0.14 µs, BenchmarkRecolour), and what was sent once is sent again
// as it is.
package avatar

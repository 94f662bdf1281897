// Starts Swagger UI. A file of its own, so that the page needs no inline script.
"use strict";

window.addEventListener("load", () => {
  const place = document.getElementById("swagger-ui");
  SwaggerUIBundle({
    domNode: place,
    url: place.dataset.openapiUrl,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    deepLinking: true,
    displayRequestDuration: true,
    supportedSubmitMethods: ["get", "head", "put", "post", "delete"],
    // No badge: it would send the document to a validator elsewhere.
    validatorUrl: null,
  });
});
